"""What a source is, and how one of its objects is read.

The facts: who asks for which level.

Annotations of objects and of the pod templates in them: the only part of a template that is ever decoded.

From objects to the workloads that people made: what a workload's own objects ask for, it asks for.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec

from toposcope.kube.reflector import Raw

_LONGEST: Final = 317
"""A label key: a DNS prefix of 253 characters, a slash, a name of 63."""
_LONGEST_NAME: Final = 253
_TERM: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """An object of the cluster, as Events refer to it; `namespace` is empty where it has none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """One level that a workload asks for."""

    term: str
    """A domain (`rack`) or the node label that carries one (`topology.kubernetes.io/zone`)."""
    required: bool
    """False: preferred. It counts as used: schedulers refuse a preferred level that they do not know."""
    topology: str | None = None
    """The topology that the workload names; None: it leaves that to the scheduler."""
    any_label: bool = False
    """Met by pod affinity: a node label that is no level of any topology serves as well."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one object says."""

    workload: WorkloadRef
    version: str = field(default="", compare=False)
    """resourceVersion: that it moved on is no news."""
    owner: WorkloadRef | None = None
    """The object that made it, as its ownerReferences say."""
    finished: bool = False
    """It has run to its end: what it asks for is history, and so is what it owns."""
    needs: tuple[LevelRequest, ...] = ()
    problem: str = ""
    """What could not be understood."""


@lru_cache(maxsize=4096)
def need(term: str, *, required: bool, topology: str | None = None, any_label: bool = False) -> LevelRequest:
    """One need, shared between the thousands of workloads that have the same.

    Raises ValueError for what can be neither a domain nor a label key: whatever anybody writes into an annotation
    ends up in a ClusterTopology's status.
    """
    if len(term) > _LONGEST or not _TERM.fullmatch(term):
        raise ValueError(f"{term[:80]!r} is neither a domain, such as rack, nor the key of a node label")
    if topology and len(topology) > _LONGEST_NAME:
        raise ValueError(f"{topology[:80]!r}... is no name of a topology: it has more than {_LONGEST_NAME} characters")
    return LevelRequest(term, required, topology or None, any_label)


MAX_LEVEL_REQUESTS: Final = 64
"""Four times the levels that a topology can have; one workload must not fill our memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """One kind whose objects ask for levels."""

    kind: str
    group: str
    versions: tuple[str, ...]
    """Preferred first."""
    plural: str
    needs: Callable[[Raw], Iterator[LevelRequest]]
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
        tuple(islice(needs, MAX_LEVEL_REQUESTS)),
        f"asks for {len(needs)} levels; only the first {MAX_LEVEL_REQUESTS} count"
        if len(needs) > MAX_LEVEL_REQUESTS
        else "",
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


class Meta(msgspec.Struct, frozen=True, gc=False):
    """An object's metadata, or a pod template's."""

    annotations: dict[str, str] | None = None


class Template(msgspec.Struct, frozen=True, gc=False):
    """A pod template."""

    metadata: Meta | None = None


class TemplateSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a Job, Deployment or StatefulSet."""

    template: Template | None = None


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Job, Deployment or StatefulSet, or the template of a Job."""

    metadata: Meta | None = None
    spec: TemplateSpec | None = None

    @property
    def template(self) -> Template | None:
        """Its pod template."""
        return self.spec.template if self.spec else None


def annotations(annotated: Template | Workload | None) -> Mapping[str, str]:
    """The annotations that stand there, if any."""
    return (annotated and annotated.metadata and annotated.metadata.annotations) or {}


_DEEPEST: Final = 8
"""Owners of owners; nothing real comes near it, and owners that own each other must end somewhere."""


def roll_up(readings: Iterable[Reading]) -> dict[WorkloadRef, tuple[LevelRequest, ...]]:
    """The needs of each workload that has not finished, under the topmost owner that is known.

    A Deployment, the PodCliqueSet made from it and a PodGroup made from that are one workload. An owner that is not
    followed itself (a RayJob, a CronJob) is still the object that somebody wrote, and gets the needs and the Events.
    """
    every = list(readings)
    by_uid = {reading.workload.uid: reading for reading in every}
    found: dict[WorkloadRef, dict[LevelRequest, None]] = {}
    for reading in every:
        top, finished = reading, reading.finished
        for _ in range(_DEEPEST):
            above = by_uid.get(top.owner.uid) if top.owner else None
            if above is None:
                break
            top, finished = above, finished or above.finished
        if reading.needs and not finished:
            found.setdefault(top.owner or top.workload, {}).update(dict.fromkeys(reading.needs))
    return {workload: tuple(needs) for workload, needs in found.items()}
