"""Objects that a controller creates from another one, which are checked instead of it.

A system's `making.py` has `MADE`: by API group and kind, the objects created from it. The systems
read these, as they will in the cluster; a system that admits workloads may read the original.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field, namespace_of
from toposcope.integrations.framework.system import ClusterFacts


@dataclass(frozen=True, slots=True)
class Made:
    """One created object."""

    path: str
    """The path of its fields in the original object, or a name if they are not in it."""
    document: Mapping[str, Any]
    is_copied: bool = True
    """Whether its fields are those at the path: then their unread fields are already known."""
    sources: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Other objects that it is created from, by name: their fields count too."""


Maker = Callable[[Field, ClusterFacts], tuple[Made, ...]]
"""Returns the objects created from an object, which may be malformed; empty if unknown."""
NOTHING: Final[tuple[Made, ...]] = ()


def in_namespace_of(root: Field, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object, in the namespace of another one unless it sets its own."""
    metadata = document.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return {**document, "metadata": {"namespace": namespace_of(root), **own}}
