"""What a source is, and how one of its objects is read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from controller.requirements.model import Need, Reading, WorkloadRef
from kube.reflector import Raw

MOST_NEEDS: Final = 64
"""Four times the levels that a topology can have; one workload must not fill our memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """One kind whose objects ask for levels."""

    kind: str
    group: str
    versions: tuple[str, ...]
    """Preferred first."""
    plural: str
    needs: Callable[[Raw], Iterator[Need]]
    """What an object in any of the versions asks for. Raises ValueError or RecursionError for one that is malformed."""
    finished: frozenset[str] = frozenset()
    """The conditions that say that an object has run to its end."""
    repeats: frozenset[str] = frozenset()
    """Kinds of owners whose objects say nothing of their own: a workload that is followed has said it already."""
    only_with: frozenset[str] = frozenset()
    """Followed only while a source of one of these groups is: others give these objects no meaning."""

    @property
    def name(self) -> str:
        """`jobsets.jobset.x-k8s.io`, as a CRD would be called."""
        return f"{self.plural}.{self.group}"


class _Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: list[_Owner] | None = None


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_Condition] | None = None


class _WithStatus(msgspec.Struct, frozen=True, gc=False):
    status: _Status | None = None


_OBJECT: Final = msgspec.json.Decoder(_Object)
_WITH_STATUS: Final = msgspec.json.Decoder(_WithStatus)


def read(source: Source, version: str, raw: Raw) -> Reading:
    """What one object says. Malformed, it asks for nothing and has a `problem`; without a name it is nobody's."""
    api_version = f"{source.group}/{version}"
    try:
        meta = _OBJECT.decode(raw).metadata
    except (ValueError, RecursionError) as error:
        return Reading(WorkloadRef(api_version, source.kind, "", "", ""), problem=_words(error))
    workload = WorkloadRef(api_version, source.kind, meta.namespace, meta.name, meta.uid)
    owner = _owner(meta)
    try:
        needs = dict.fromkeys(source.needs(raw)) if owner is None or owner.kind not in source.repeats else {}
        finished = bool(source.finished) and _finished(source, raw)
    except (ValueError, RecursionError) as error:
        return Reading(workload, meta.resource_version, owner, problem=_words(error))
    return Reading(
        workload,
        meta.resource_version,
        owner,
        finished,
        tuple(islice(needs, MOST_NEEDS)),
        f"asks for {len(needs)} levels; only the first {MOST_NEEDS} count" if len(needs) > MOST_NEEDS else "",
    )


def _owner(meta: _Meta) -> WorkloadRef | None:
    """The controller, or the only owner: KAI's PodGroups name theirs without calling it controller."""
    owners = meta.owner_references or []
    found = next((o for o in owners if o.controller), owners[0] if len(owners) == 1 else None)
    if found is None:
        return None
    return WorkloadRef(found.api_version, found.kind, meta.namespace, found.name, found.uid)


def _finished(source: Source, raw: Raw) -> bool:
    status = _WITH_STATUS.decode(raw).status or _Status()
    return any(c.type in source.finished and c.status == "True" for c in status.conditions or ())


def _words(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
