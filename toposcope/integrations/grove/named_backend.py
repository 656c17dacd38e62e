"""A scheduler backend of Grove whose topology a binding can name, so that Grove creates none."""

from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import PREFIX
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.grove import backend, kueue_backend


@dataclass(frozen=True, slots=True)
class NamedBackend:
    """Its name in bindings, and the topology that they name for it."""

    scheduler: str
    title: str
    topologies: PublishedKind
    annotation: str
    """Of a binding: Toposcope wrote its entry, which names the Topology in the value."""


USUAL: Final = NamedBackend(
    backend.SCHEDULER,
    backend.TITLE,
    backend.TOPOLOGIES,
    backend.NAMED,
)
"""The one that Grove's charts enable."""
QUEUES: Final = NamedBackend(
    kueue_backend.SCHEDULER,
    kueue_backend.TITLE,
    kueue_backend.TOPOLOGIES,
    f"{PREFIX}names-{kueue_backend.SCHEDULER}-topology",
)
"""The one that admits by queues (GREP-704)."""
BACKENDS: Final = (USUAL, QUEUES)
