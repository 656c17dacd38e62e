"""The levels that the workloads of a cluster request.

They are read from each watched object, and rolled up to the workloads' owners. An object is decoded
only to the fields that its kind's reader looks at: a watch of thousands of workloads must stay
cheap, and pod templates are large.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Final, TypedDict

import msgspec

from toposcope.integrations.framework.document import Field
from toposcope.kube.discovery import Kind
from toposcope.kube.reflector import Raw

MAX_LEVEL_REQUESTS: Final = 64
"""Four times the levels that a topology can have; one workload must not fill our memory."""
_MAX_KEY_CHARACTERS: Final = 317
"""A label key: a DNS prefix of 253 characters, a slash, a name of 63."""
_MAX_NAME_CHARACTERS: Final = 253
_MAX_PROBLEM_CHARACTERS: Final = 200
"""Characters of an error that are repeated."""
_MAX_OWNERS: Final = 8
"""The longest chain of owners that is followed. Real chains are shorter; cycles must end."""
_LEVEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", re.ASCII)

ANNOTATIONS: Final[Mapping[str, Any]] = {"metadata": {"annotations": dict[str, str]}}
"""The fields of an object, or of a pod template, of which only the annotations are read."""
_OWNER: Final = {"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool}
_METADATA: Final = {
    "name": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "ownerReferences": [_OWNER],
}
_STATUS: Final = {"conditions": [{"type": str, "status": str}]}


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """An object of the cluster, as Events refer to it.

    `namespace` is empty for a cluster-scoped one.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """One level that a workload requests."""

    level: str
    """A domain (`rack`) or the node label that carries one (`topology.kubernetes.io/zone`)."""
    is_required: bool
    """False: preferred.

    Preferred levels count as used: schedulers refuse one that they do not know.
    """
    topology: str | None = None
    """The topology that the workload names; None to leave it to the scheduler."""
    accepts_any_label: bool = False
    """Enforced by pod affinity: a node label that is no level of any topology works as well."""


@dataclass(frozen=True, slots=True)
class ObjectRequests:
    """The level requests of one object."""

    workload: WorkloadRef
    version: str = field(default="", compare=False)
    """resourceVersion: a change of nothing else is no change."""
    owner: WorkloadRef | None = None
    """The object that created it, by its ownerReferences."""
    has_finished: bool = False
    """Whether it has run to completion: then its requests, and those of what it owns, no longer
    count."""
    requests: tuple[LevelRequest, ...] = ()
    problem: str = ""
    """Why the object could not be read."""


@lru_cache(maxsize=4096)
def level_request(
    level: str, *, is_required: bool, topology: str | None = None, accepts_any_label: bool = False
) -> LevelRequest:
    """A request, shared between the thousands of workloads that have the same one.

    Raises ValueError for text that can be neither a domain nor a label key: it would end up in a
    ClusterTopology's status.
    """
    if len(level) > _MAX_KEY_CHARACTERS or not _LEVEL.fullmatch(level):
        text = f"{level[:80]!r} is neither a domain, such as rack, nor the key of a node label"
        raise ValueError(text)
    if topology and len(topology) > _MAX_NAME_CHARACTERS:
        text = (
            f"{topology[:80]!r}... is not the name of a topology: "
            f"it has more than {_MAX_NAME_CHARACTERS} characters"
        )
        raise ValueError(text)
    return LevelRequest(level, is_required, topology or None, accepts_any_label)


def requests_at(
    places: Iterable[tuple[Field, bool]],
    topology: str | None = None,
    *,
    accepts_any_label: bool = False,
) -> Iterator[LevelRequest]:
    """A request for each of the fields that names a level; the flag says whether it is required.

    Raises ValueError.
    """
    for place, required in places:
        level = place.text()
        if level:
            yield level_request(
                level, is_required=required, topology=topology, accepts_any_label=accepts_any_label
            )


@dataclass(frozen=True, slots=True)
class Annotated:
    """Where a workload may have annotations that a scheduler of its pods reads."""

    workload: Field
    jobs: tuple[Field, ...] = ()
    """The templates of its Jobs."""
    pods: tuple[Field, ...] = ()
    """Its pod templates."""


ReadAnnotations = Callable[[Annotated], Iterator[LevelRequest]]
"""The requests in annotations. Raises ValueError."""


@dataclass(frozen=True, eq=False)
class WatchedKind(Kind):
    """One kind whose objects request levels."""

    fields: Mapping[str, Any]
    """What is decoded: for each property a type, a mapping of this form, or a list of one of them.

    `*` stands for every property of a map.
    """
    requests: Callable[[Field, ReadAnnotations], Iterator[LevelRequest]]
    """The requests of an object in any of the versions; it is given who reads annotations.

    Raises ValueError.
    """
    finished_conditions: frozenset[str] = frozenset()
    """The conditions that say that an object has run to completion."""
    derived_from: frozenset[str] = frozenset()
    """Kinds of owners that are watched themselves: objects that they create repeat their requests.
    """
    only_with: frozenset[str] = frozenset()
    """Watched only while a kind of one of these groups is: others give these objects no meaning."""
    needs_annotation_reader: bool = False
    """Watched only while a kind of a system is that reads annotations, or one of `only_with`."""
    translated_by: str = ""
    """The API group whose topology resource translates the levels: what it lacks, the workload has
    no more.
    """

    @cached_property
    def decoder(self) -> "msgspec.json.Decoder[Any]":
        """Decodes an object's metadata, `fields`, and conditions that say that it has finished."""
        fields = dict(self.fields)
        own_metadata = fields.get("metadata", {})
        fields["metadata"] = {**_METADATA, **own_metadata}
        if self.finished_conditions:
            fields["status"] = _STATUS
        return msgspec.json.Decoder(_type(fields))


def _type(fields: Any) -> Any:
    """The type that msgspec decodes: any property may be absent or null, others are skipped."""
    if isinstance(fields, list):
        return list[_type(fields[0]) | None]  # type: ignore[misc]
    if not isinstance(fields, Mapping):
        return fields
    if "*" in fields:
        return dict[str, _type(fields["*"]) | None]  # type: ignore[misc]
    types = {}
    for name, kind in fields.items():
        types[name] = _type(kind) | None
    make: Any = TypedDict  # the functional form, for names that only the caller knows
    return make("Fields", types, total=False)


_ANY_OBJECT: Final["msgspec.json.Decoder[Any]"] = msgspec.json.Decoder(
    _type({"metadata": _METADATA})
)


@dataclass(frozen=True, slots=True)
class _Decoded:
    """An object, or as much of it as could be decoded."""

    root: Field
    problem: str = ""
    """Why the rest could not."""


def _decoded(kind: WatchedKind, raw: Raw) -> _Decoded:
    try:
        return _Decoded(Field(kind.decoder.decode(raw)))
    except (ValueError, RecursionError) as error:
        problem = _text(error)
    try:
        return _Decoded(Field(_ANY_OBJECT.decode(raw)), problem)
    except (ValueError, RecursionError):
        return _Decoded(Field(None), problem)


def read_object(
    kind: WatchedKind, version: str, raw: Raw, read_annotations: ReadAnnotations
) -> ObjectRequests:
    """The requests of one object.

    A malformed one has none and a `problem`, and no name where that is unreadable.
    """
    decoded = _decoded(kind, raw)
    root = decoded.root
    problem = decoded.problem
    metadata: Mapping[str, Any] = (root / "metadata").value or {}
    workload = _workload(kind.api_version(version), kind.kind, metadata)
    owner = _owner(metadata)
    if not problem and not workload.name:
        problem = "the object has no name"

    requests: dict[LevelRequest, None] = {}
    if not problem and not _repeats(kind, owner):
        try:
            requests = dict.fromkeys(kind.requests(root, read_annotations))
        except ValueError as error:
            problem = _text(error)
    number = len(requests)
    if number > MAX_LEVEL_REQUESTS:
        problem = f"requests {number} levels; only the first {MAX_LEVEL_REQUESTS} count"

    return ObjectRequests(
        workload=workload,
        version=metadata.get("resourceVersion") or "",
        owner=owner,
        has_finished=not problem and _has_finished(kind, root),
        requests=tuple(islice(requests, MAX_LEVEL_REQUESTS)),
        problem=problem,
    )


def _repeats(kind: WatchedKind, owner: WorkloadRef | None) -> bool:
    """Whether an object with this owner only repeats the owner's requests."""
    return owner is not None and owner.kind in kind.derived_from


def _workload(api_version: str, kind: str, metadata: Mapping[str, Any]) -> WorkloadRef:
    return WorkloadRef(
        api_version=api_version,
        kind=kind,
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
    )


def _owner(metadata: Mapping[str, Any]) -> WorkloadRef | None:
    """The controller, or the only owner: some objects do not mark theirs as controller."""
    owner = _chosen_owner(metadata.get("ownerReferences") or ())
    if owner is None:
        return None
    api_version = owner.get("apiVersion") or ""
    kind = owner.get("kind") or ""
    namespaced = {**owner, "namespace": metadata.get("namespace")}
    return _workload(api_version, kind, namespaced)


def _chosen_owner(references: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    owners = []
    for owner in references:
        if not owner:
            continue
        if owner.get("controller"):
            return owner
        owners.append(owner)
    if len(owners) == 1:
        return owners[0]
    return None


def _has_finished(kind: WatchedKind, root: Field) -> bool:
    if not kind.finished_conditions:
        return False
    conditions = root / "status" / "conditions"
    for condition in conditions.items():
        name = (condition / "type").value
        if name not in kind.finished_conditions:
            continue
        status = (condition / "status").value
        if status == "True":
            return True
    return False


def _text(error: Exception) -> str:
    text = str(error)
    if not text:
        return type(error).__name__
    return text[:_MAX_PROBLEM_CHARACTERS]


def roll_up(objects: Iterable[ObjectRequests]) -> dict[WorkloadRef, tuple[LevelRequest, ...]]:
    """The requests of each workload that has not finished, under the topmost owner that is known.

    A Deployment, the PodCliqueSet made from it and a PodGroup made from that are one workload. An
    owner that is not watched itself (a RayJob, a CronJob) is still the object that somebody wrote,
    and gets the requests and the Events.
    """
    all_objects = list(objects)
    by_uid = {read.workload.uid: read for read in all_objects}

    collected: dict[WorkloadRef, dict[LevelRequest, None]] = {}
    for read in all_objects:
        top, finished = _topmost(read, by_uid)
        if finished or not read.requests:
            continue
        workload = top.owner or top.workload
        requests = collected.setdefault(workload, {})
        requests.update(dict.fromkeys(read.requests))

    rolled_up = {}
    for workload, requests in collected.items():
        rolled_up[workload] = tuple(requests)
    return rolled_up


def _topmost(
    read: ObjectRequests, by_uid: Mapping[str, ObjectRequests]
) -> tuple[ObjectRequests, bool]:
    """The topmost owner that is known, and whether it or one between has finished."""
    top = read
    finished = read.has_finished
    for _ in range(_MAX_OWNERS):
        if top.owner is None:
            break
        above = by_uid.get(top.owner.uid)
        if above is None:
            break
        top = above
        finished = finished or above.has_finished
    return top, finished
