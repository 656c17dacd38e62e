"""Defects planted in the production code on purpose: the simulation must find each."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from toposcope.agent.describe import Description
from toposcope.agent.labels import NO_GPUS
from toposcope.controller.election import Election
from toposcope.kube.client import METADATA_LIST, Request
from toposcope.kube.errors import ResourceExpiredError, UnreachableError
from toposcope.kube.reflector import Reflector

_watch: Final = Reflector._watch  # noqa: SLF001 - a defect is planted in its place
_paged: Final = Reflector._paged  # noqa: SLF001 - same
_streamed: Final = Reflector._streamed  # noqa: SLF001 - same
_claimed: Final = Election.claimed


@dataclass(frozen=True)
class Defect:
    """A planted defect, and the invariant that it breaks.

    `changes` are names below `toposcope`, each with what takes its place.
    """

    invariant: str
    changes: Mapping[str, Callable[..., Any]]


def _version_of(reflector: Any) -> str:
    """The collection's version, without its objects."""
    path = reflector._path  # noqa: SLF001 - a defect is planted there
    request = Request("GET", path, {"limit": "1"}, accept=METADATA_LIST)
    page = reflector._page(request)  # noqa: SLF001 - same
    return str(page.metadata["resourceVersion"])


def _watch_from_now(self: Any) -> None:
    """Go on watching at 410 without listing again."""
    try:
        _watch(self)
    except ResourceExpiredError:
        self._version = _version_of(self)


def _empty_after(read: Callable[[Any], Any], error: type[Exception]) -> Callable[[Any], Any]:
    """Take a list that fails for an empty one."""

    def read_or_empty(self: Any) -> Any:
        try:
            return read(self)
        except error:
            self._version = _version_of(self)
            return {}

    return read_or_empty


def _holds(self: Any, now: float) -> bool:
    is_holder = self.holder == self._identity
    return bool(is_holder and now > self._from)


def _use_at_once(self: Any, *arguments: Any) -> None:
    _claimed(self, *arguments)
    self._from = -1.0


def _no_gpus(reason: Any, problem: Any, *_: Any) -> Description:
    return Description(NO_GPUS, problem=problem, reason=reason)


def _nothing(*_: Any) -> None:
    """Do not do it."""


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def _overdue_when_running(*_: Any, is_running: bool = True, **__: Any) -> bool:
    return is_running


PLANTED: Final[Mapping[str, Defect]] = {
    "the fence is gone": Defect(
        invariant="writer",
        changes={"controller.fence.FencedClient._about_to_send": _nothing},
    ),
    "a Lease is held after it has expired": Defect(
        invariant="writer",
        changes={"controller.election.Election.can_write": _holds},
    ),
    "a new Lease is used at once": Defect(
        invariant="writer",
        changes={"controller.election.Election.claimed": _use_at_once},
    ),
    "labels go when NVML does not answer": Defect(
        invariant="labels",
        changes={"agent.loop.unknown": _no_gpus},
    ),
    "objects of others are adopted": Defect(
        invariant="foreign",
        changes={
            "integrations.framework.publishing.immutable_topology.is_ours": _always,
            "integrations.framework.publishing.objects.is_ours": _always,
            "integrations.grove.publisher.is_ours": _always,
            "integrations.kai.publisher.is_ours": _always,
        },
    ),
    "events are lost at 410": Defect(
        invariant="converged",
        changes={
            "kube.reflector.Reflector._watch": _watch_from_now,
            "kube.reflector._may_have_been_away": _never,
        },
    ),
    "a list that breaks off counts as empty": Defect(
        invariant="converged",
        changes={"kube.reflector.Reflector._streamed": _empty_after(_streamed, UnreachableError)},
    ),
    "a list that expires between two pages counts as empty": Defect(
        invariant="converged",
        changes={"kube.reflector.Reflector._paged": _empty_after(_paged, ResourceExpiredError)},
    ),
    "a restored etcd is not noticed": Defect(
        invariant="converged",
        changes={"kube.reflector._may_have_been_away": _never},
    ),
    "a level goes before its grace period is over": Defect(
        invariant="levels",
        changes={"hierarchy.timers.Timers.is_overdue": _overdue_when_running},
    ),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[str]:
    """Have the programs work with a defect; the invariant that breaks."""
    defect = PLANTED[name]
    with contextlib.ExitStack() as stack:
        for path, instead in defect.changes.items():
            stack.enter_context(patch(f"toposcope.{path}", instead))
        yield defect.invariant
