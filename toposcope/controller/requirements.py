"""What workloads ask of the topology.

Watches every kind that the cluster serves, and resolves requests to domains.

    discovery -> one informer a kind -> ObjectRequests -> roll_up() -> resolve() -> required domains

Nothing has to be installed in the cluster: kinds come and go. What an object asks for is read by
the integrations.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from toposcope.api.levels import Level
from toposcope.controller.informer import Cache, Informer, InformerFactory, is_not_found
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.level_requests import (
    LevelRequest,
    ObjectRequests,
    WatchedKind,
    WorkloadRef,
    read_object,
    roll_up,
)
from toposcope.integrations.framework.publishing.publisher import LevelNames
from toposcope.integrations.registry import WATCHED, needed_groups, read_annotations
from toposcope.kube.discovery import Served, discover, is_gone
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import Raw, key

log = logging.getLogger(__name__)

MAIN: Final = "cluster"
"""The ClusterTopology that reports levels which no topology has."""

WorkloadsByLevel = Mapping[str, tuple[WorkloadRef, ...]]


class Requirements:
    """The level requests of all workloads.

    One thread calls `refresh`, `sync` and `close`; others call `changed`.
    """

    def __init__(self, informers: InformerFactory, changed: Callable[[], None]) -> None:
        self._factory = informers
        self._client = informers.client
        self._changed = changed
        self._has_discovered = False
        self._is_discovery_failing = False
        self._informers: Mapping[WatchedKind, _KindInformer] = {}

    def refresh(self, served: Served | None = None) -> None:
        """Watch what discovery (or `served`, its answer at hand) shows.

        Where it fails, everything stays.
        """
        try:
            started = self._discover(served)
        except KubeError as error:
            self.discovery_failed(error)
            return
        for informer in started:
            informer.start()

    def discovery_failed(self, error: KubeError) -> None:
        """Report that it is not known at the moment what is served."""
        log.warning("cannot discover which workload kinds this cluster serves: %s", error)
        self._is_discovery_failing = True

    def sync(self) -> None:
        """Discover what is served and list it once, without a watch: for a single pass.

        Raises KubeError.
        """
        self._discover()
        for informer in self._informers.values():
            informer.sync()

    def close(self) -> None:
        """Stop all watches."""
        for informer in self._informers.values():
            informer.end()

    @property
    def is_synced(self) -> bool:
        """Whether everything that is served has been listed.

        Only then does no request mean that there is none.
        """
        informers = self._informers.values()
        return self._has_discovered and all(informer.is_synced for informer in informers)

    @property
    def is_outdated(self) -> bool:
        """Whether a watched kind is no longer served."""
        return any(informer.is_not_found for informer in self._informers.values())

    def level_requests(self) -> dict[WorkloadRef, tuple[LevelRequest, ...]]:
        """The requests of each workload that has some."""
        return roll_up(_read(self._informers.values()))

    def bound_requests(self) -> dict[WorkloadRef, tuple[LevelRequest, ...]] | None:
        """The requests of workloads whose constraints another system translates.

        None: not all can be read now.
        """
        if not self._has_discovered or self._is_discovery_failing:
            return None
        groups = {kind.group for kind in self._informers}
        bound: list[ObjectRequests] = []
        for kind, informer in self._informers.items():
            if not kind.translated_by:
                continue
            if not informer.is_synced or informer.error:
                return None
            if kind.translated_by in groups:
                bound += informer.objects()
        return roll_up(bound)

    def by_value(self) -> dict[str, str]:
        """The workload that groups by a label's value alone, by the label's key.

        The first one with pod affinity or kube-scheduler's gangs.
        """
        first: dict[str, str] = {}
        for workload, requests in sorted(self.level_requests().items(), key=_workload):
            for request in requests:
                if request.accepts_any_label:
                    name = f"{workload.kind} {workload.namespace}/{workload.name}"
                    first.setdefault(request.level, name)
        return first

    def _discover(self, answer: Served | None = None) -> list["_KindInformer"]:
        """Match the informers to what is served; returns new ones, still to be started.

        Raises KubeError.
        """
        before = self._informers
        answer = answer or discover(self._client, WATCHED)
        now: dict[WatchedKind, _KindInformer] = {}
        started = []
        for kind, version in self._wanted(answer).items():
            informer = before.get(kind)
            if informer is None or informer.version != version:
                informer = self._informer(kind, version, informer)
                started.append(informer)
            now[kind] = informer
        self._informers = now
        self._has_discovered, self._is_discovery_failing = True, False
        self._end_others(before)
        return started

    def _wanted(self, answer: Served) -> dict[WatchedKind, str]:
        """The kinds to watch, each in the version to watch it in. Raises KubeError."""
        served = self._served(answer)
        groups = set()
        for kind in served:
            if not needed_groups(kind):
                groups.add(kind.group)
        wanted = {}
        for kind, version in served.items():
            needed = needed_groups(kind)
            if not needed or needed & groups:
                wanted[kind] = version
        return wanted

    def _served(self, answer: Served) -> dict[WatchedKind, str]:
        """The kinds that are served, as discovery says.

        A watched one only goes if its collection is gone.

        Raises KubeError.
        """
        served = {}
        for kind in WATCHED:
            version = answer.version(kind)
            if version:
                served[kind] = version
        for kind, informer in self._informers.items():
            unlisted = kind not in served and informer.is_synced
            if unlisted and not is_gone(self._client, informer.path):
                served[kind] = informer.version
        return served

    def _informer(
        self, kind: WatchedKind, version: str, old: "_KindInformer | None"
    ) -> "_KindInformer":
        """An informer of a kind that is new, or that is served in another version than before."""
        log.info("following %s in version %s", kind.name, version)
        return _KindInformer(
            self._factory,
            kind,
            version,
            self._changed,
            before=old.objects() if old else (),
        )

    def _end_others(self, before: Mapping[WatchedKind, "_KindInformer"]) -> None:
        """End the informers that are no longer in use."""
        for kind, informer in before.items():
            if self._informers.get(kind) is not informer:
                informer.end()
        for kind in before.keys() - self._informers.keys():
            log.info("%s is no longer served", kind.name)
            self._changed()


def _read(informers: Iterable["_KindInformer"]) -> Iterator[ObjectRequests]:
    """All objects that ask for something."""
    for informer in informers:
        yield from informer.objects()


def _workload(entry: tuple[WorkloadRef, object]) -> tuple[str, ...]:
    return astuple(entry[0])


class _KindInformer(Informer[ObjectRequests]):
    """One kind in one version.

    `before` was read in another version, and is used until this one has been listed.
    """

    def __init__(
        self,
        factory: InformerFactory,
        kind: WatchedKind,
        version: str,
        changed: Callable[[], None],
        before: Iterable[ObjectRequests],
    ) -> None:
        cache = _ObjectRequestsCache(kind.name, changed)
        super().__init__(
            factory,
            kind.path(version),
            name=kind.name,
            decode=self._decode,
            cache=cache,
            handler=cache,
        )
        self.version = version
        self._kind = kind
        self._before = list(before)

    def objects(self) -> list[ObjectRequests]:
        return self.cache.items() if self.is_synced else self._before

    def _decode(self, raw: Raw) -> tuple[str, str, ObjectRequests | None]:
        """Raises ValueError for an object without a name."""
        read = read_object(self._kind, self.version, raw, read_annotations)
        workload = read.workload
        if not workload.name:
            raise ValueError(read.problem)
        asks = bool(read.requests or read.problem)
        return key(workload.namespace, workload.name), read.version, read if asks else None


class _ObjectRequestsCache(Cache[ObjectRequests]):
    """Keeps the objects that ask for something, and logs once for each that cannot be read."""

    def __init__(self, kind: str, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._kind = kind
        self._wake = changed

    def replace(self, items: Mapping[str, ObjectRequests | None]) -> None:
        kept = {}
        for name, read in items.items():
            if read is not None:
                kept[name] = read
                self._log_problem(name, read)
        super().replace(kept)

    def put(self, name: str, item: ObjectRequests | None) -> None:
        if item is None:
            self.gone(name)
        else:
            self._log_problem(name, item)
            super().put(name, item)

    def failing(self, error: KubeError | None) -> None:
        super().failing(error)
        if is_not_found(error):
            self._wake()  # no longer served: to be noticed now, not in a minute

    def _log_problem(self, name: str, requests: ObjectRequests) -> None:
        if not requests.problem:
            return
        before = self._items.get(name)
        if before is None or before.problem != requests.problem:
            log.warning("%s %s: %s", self._kind, name, requests.problem)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What workloads ask of one topology."""

    required: WorkloadsByLevel = field(default_factory=dict)
    """Workloads that require a level that the topology has, by domain."""
    missing: WorkloadsByLevel = field(default_factory=dict)
    """Workloads that require a level that it lacks, by domain where that is known, else by key."""
    preferred: WorkloadsByLevel = field(default_factory=dict)
    """Workloads that prefer a level that it has or lacks, and do not require it as well, by domain
    or key."""


_Askers: TypeAlias = dict[str, dict[WorkloadRef, None]]
"""Workloads by level; each once, in order."""


def resolve(
    levels: Mapping[str, Sequence[Level]],
    requests: Mapping[WorkloadRef, Sequence[LevelRequest]],
    catalogue: Catalogue = BUILT_IN,
    names: LevelNames = MappingProxyType({}),
) -> dict[str, Resolved]:
    """What `requests` ask of each topology: pure.

    `levels`: the effective levels of each topology, by its name.

    `names`: other names that requests have for levels.

    A request concerns the topology that it names, and none when that is not ours. One that names
    none concerns every topology that has the level; where none has it, the one called `cluster`,
    or all.
    """
    by_topology = {}
    for name, levels_of_topology in levels.items():
        domains = _domains(levels_of_topology)
        domains.update(names.get(name, {}))
        by_topology[name] = _Asked(domains, catalogue)
    for request, workloads in _by_request(requests).items():
        for name in _concerned(request, by_topology):
            by_topology[name].add(request, workloads)
    return {name: by_level.resolved() for name, by_level in by_topology.items()}


def _concerned(request: LevelRequest, by_topology: Mapping[str, "_Asked"]) -> Sequence[str]:
    """The names of the topologies that a request concerns."""
    candidates, having = [], []
    for name, by_level in by_topology.items():
        if request.topology in (None, name):
            candidates.append(name)
            if by_level.has_level(request):
                having.append(name)
    if having:
        return having
    return [MAIN] if MAIN in candidates else candidates


def _domains(levels: Sequence[Level]) -> dict[str, str]:
    """The domain of each name by which a topology's level may be asked for."""
    domains = {}
    for level in levels:
        domains[level.domain] = level.domain
        domains[level.key] = level.domain
    return domains


class _Asked:
    """What is asked of one topology; `domains` as in `_domains`."""

    def __init__(self, domains: Mapping[str, str], catalogue: Catalogue) -> None:
        self._domains = domains
        self._catalogue = catalogue
        self._required: _Askers = {}
        self._missing: _Askers = {}
        self._preferred: _Askers = {}

    def has_level(self, request: LevelRequest) -> bool:
        """Whether the topology has the level."""
        return request.level in self._domains

    def add(self, request: LevelRequest, workloads: Mapping[WorkloadRef, None]) -> None:
        """Note that workloads ask for a level."""
        domain = self._domains.get(request.level)
        if domain is not None:
            askers = self._required if request.is_required else self._preferred
        else:
            domain = self._lacking(request)
            askers = self._missing if request.is_required else self._preferred
        if domain is not None:
            askers.setdefault(domain, {}).update(workloads)

    def resolved(self) -> Resolved:
        """All that is asked."""
        needed = {**self._missing, **self._required}
        return Resolved(
            required=_sorted(self._required),
            missing=_sorted(self._missing),
            preferred=_sorted(_only_preferring(self._preferred, needed)),
        )

    def _lacking(self, request: LevelRequest) -> str | None:
        """The name of a level that the topology lacks; None: it may not lack it.

        A label of the catalogue stands for its domain, so that a level keeps its name when it has
        left the inferred levels. Where the topology has the domain by another label it is the label
        that is missing; pod affinity may well find it on the nodes, as it may any label that is not
        in the catalogue.
        """
        domain = self._catalogue.domain_of.get(request.level)
        if domain is not None and domain not in self._domains:
            return domain
        return None if request.accepts_any_label else request.level


def _only_preferring(preferred: _Askers, required: _Askers) -> _Askers:
    """Workloads that prefer a level without requiring it too; levels without any are left out."""
    only: _Askers = {}
    for level, workloads in preferred.items():
        requiring = required.get(level, {})
        for workload in workloads:
            if workload not in requiring:
                only.setdefault(level, {})[workload] = None
    return only


def _by_request(
    requests: Mapping[WorkloadRef, Sequence[LevelRequest]],
) -> dict[LevelRequest, dict[WorkloadRef, None]]:
    """Thousands of workloads ask for the same few levels."""
    workloads: dict[LevelRequest, dict[WorkloadRef, None]] = {}
    for workload, asked in requests.items():
        for request in asked:
            workloads.setdefault(request, {})[workload] = None
    return workloads


def _sorted(askers: _Askers) -> dict[str, tuple[WorkloadRef, ...]]:
    return {level: tuple(workloads) for level, workloads in sorted(askers.items())}
