"""Defects planted in the production code on purpose: the simulation must find each."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from unittest.mock import patch

from toposcope.agent.describe import Description
from toposcope.agent.labels import NO_GPUS
from toposcope.controller.election import Election
from toposcope.hierarchy.effective_levels import effective_levels
from toposcope.integrations.framework.published import Published, Target
from toposcope.integrations.framework.publishing import objects
from toposcope.kube.client import METADATA_LIST, Request
from toposcope.kube.errors import ResourceExpiredError, UnreachableError
from toposcope.kube.reflector import Reflector

_watch: Final = Reflector._watch  # noqa: SLF001 - a defect is planted in its place
_paged: Final = Reflector._paged  # noqa: SLF001 - same
_streamed: Final = Reflector._streamed  # noqa: SLF001 - same
_claimed: Final = Election.claimed
_remove: Final = objects.remove


def _version_of(reflector: Any) -> str:
    """The collection's version, without its objects."""
    page = reflector._page(Request("GET", reflector._path, {"limit": "1"}, accept=METADATA_LIST))  # noqa: SLF001 - same
    return str(page.metadata["resourceVersion"])


def _goes_on(self: Any) -> None:
    try:
        _watch(self)
    except ResourceExpiredError:
        self._version = _version_of(self)


def _half(read: Callable[[Any], Any], error: type[Exception]) -> Callable[[Any], Any]:
    def believed(self: Any) -> Any:
        try:
            return read(self)
        except error:
            self._version = _version_of(self)
            return {}

    return believed


def _holds(self: Any, now: float) -> bool:
    return bool(self.holder == self._identity and now > self._from)


def _at_once(self: Any, *what: Any) -> None:
    _claimed(self, *what)
    self._from = -1.0


def _and_waits(client: Any, target: Target, *what: Any) -> Published:
    return _remove(client, target, *what) or target.not_in_sync("Waiting", "", 1.0)


_PUBLISHERS: Final = (
    "framework.publishing.immutable_topology",
    "framework.publishing.objects",
    "grove.publisher",
    "kai.publisher",
)
_OURS: Final = tuple(f"integrations.{name}.is_ours" for name in _PUBLISHERS)
PLANTED: Final[Mapping[str, tuple[str, Mapping[str, Callable[..., Any]]]]] = {
    "the fence is gone": (
        "writer",
        {"controller.fence.FencedClient._about_to_send": lambda *_: None},
    ),
    "a Lease is held after it has expired": (
        "writer",
        {"controller.election.Election.may_write": _holds},
    ),
    "a new Lease is used at once": ("writer", {"controller.election.Election.claimed": _at_once}),
    "labels go when NVML does not answer": (
        "labels",
        {
            "agent.loop.unknown": lambda reason, problem, *_: Description(
                NO_GPUS, problem=problem, reason=reason
            )
        },
    ),
    "objects of others are adopted": ("foreign", dict.fromkeys(_OURS, lambda *_: True)),
    "events are lost at 410": (
        "converged",
        {
            "kube.reflector.Reflector._watch": _goes_on,
            "kube.reflector._may_have_been_away": lambda *_: False,
        },
    ),
    "a list that breaks off counts as empty": (
        "converged",
        {"kube.reflector.Reflector._streamed": _half(_streamed, UnreachableError)},
    ),
    "a list that expires between two pages counts as empty": (
        "converged",
        {"kube.reflector.Reflector._paged": _half(_paged, ResourceExpiredError)},
    ),
    "a restored etcd is not noticed": (
        "converged",
        {"kube.reflector._may_have_been_away": lambda *_: False},
    ),
    "a Topology is made again by a later pass": (
        "",
        {"integrations.framework.publishing.objects.remove": _and_waits},
    ),
    "new levels are not tried first": (
        "",
        {"integrations.framework.publishing.objects.try_create": lambda *_: None},
    ),
    "a level goes before its grace period is over": (
        "levels",
        {"hierarchy.timers.Timers.overdue": lambda *_, running=True: running},
    ),
    "time without nodes counts": (
        "",
        {"controller.memory.Memory.forget_nodes": lambda _: None},
    ),
    "workloads of Grove are forgotten": (
        "",
        {
            "controller.assess.assessment.effective_levels": lambda *what, catalogue, **_: (
                effective_levels(*what, catalogue=catalogue)
            )
        },
    ),
}
"""What is done, to the invariant that it breaks (none.

Only a trace shows it), and what takes the place of what.
"""


@contextlib.contextmanager
def planted(defect: str) -> Iterator[str]:
    """Have the programs work with a defect; the invariant that breaks."""
    invariant, changes = PLANTED[defect]
    with contextlib.ExitStack() as stack:
        for name, instead in changes.items():
            stack.enter_context(patch(f"toposcope.{name}", instead))
        yield invariant
