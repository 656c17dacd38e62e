"""What workloads ask of the topology: watches every kind that the cluster serves, and resolves requests to domains.

    discovery -> one informer a kind -> ObjectRequests -> roll_up() -> resolve() -> required domains

Nothing has to be installed in the cluster: kinds come and go. What an object asks for is read by the integrations.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from types import MappingProxyType
from typing import Final

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
        self._discovered = False
        self._discovery_failed = False
        self._informers: Mapping[WatchedKind, _KindInformer] = {}

    def refresh(self, served: Served | None = None) -> None:
        """Watch what discovery (or `served`, its answer at hand) shows; where it fails, everything stays."""
        try:
            started = self._discover(served)
        except KubeError as error:
            self.discovery_failed(error)
            return
        for informer in started:
            informer.start()

    def discovery_failed(self, error: KubeError) -> None:
        """Report that it is not known at the moment what is served."""
        log.warning("cannot find out which workloads this cluster serves: %s", error)
        self._discovery_failed = True

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
    def synced(self) -> bool:
        """Whether everything that is served has been listed: only then does no request mean that there is none."""
        return self._discovered and all(informer.synced for informer in self._informers.values())

    @property
    def outdated(self) -> bool:
        """Whether a watched kind is no longer served."""
        return any(informer.not_found for informer in self._informers.values())

    def level_requests(self) -> dict[WorkloadRef, tuple[LevelRequest, ...]]:
        """The requests of each workload that has some."""
        return roll_up(read for informer in self._informers.values() for read in informer.objects())

    def bound_requests(self) -> dict[WorkloadRef, tuple[LevelRequest, ...]] | None:
        """The requests of workloads whose constraints another system translates; None: not all can be read now."""
        if not self._discovered or self._discovery_failed:
            return None
        groups = {kind.group for kind in self._informers}
        bound: list[ObjectRequests] = []
        for kind, informer in self._informers.items():
            if not kind.translated_by:
                continue
            if not informer.synced or informer.error:
                return None
            if kind.translated_by in groups:
                bound += informer.objects()
        return roll_up(bound)

    def by_value(self) -> dict[str, str]:
        """Who goes by a label's value alone, by its key: the first one with pod affinity or kube-scheduler's gangs."""
        who: dict[str, str] = {}
        for workload, requests in sorted(
            self.level_requests().items(), key=lambda one: astuple(one[0]), reverse=True
        ):
            named = f"{workload.kind} {workload.namespace}/{workload.name}"
            who |= {request.level: named for request in requests if request.any_label}
        return who

    def _discover(self, answer: Served | None = None) -> list["_KindInformer"]:
        """Match the informers to what is served; returns new ones, still to be started.

        Raises KubeError.
        """
        before = self._informers
        answer = answer or discover(self._client, WATCHED)
        served = {kind: version for kind in WATCHED if (version := answer.version(kind))}
        for kind, informer in before.items():
            if kind not in served and informer.synced and not is_gone(self._client, informer.path):
                served[kind] = informer.version
        groups = {kind.group for kind in served if not needed_groups(kind)}
        now: dict[WatchedKind, _KindInformer] = {}
        started = []
        for kind, version in served.items():
            needed = needed_groups(kind)
            if needed and not needed & groups:
                continue
            old = before.get(kind)
            if old is None or old.version != version:
                log.info("following %s in version %s", kind.name, version)
                known = old.objects() if old else ()
                old = _KindInformer(self._factory, kind, version, self._changed, known)
                started.append(old)
            now[kind] = old
        self._informers, self._discovered, self._discovery_failed = now, True, False
        for kind, informer in before.items():
            if now.get(kind) is not informer:
                informer.end()
        for kind in before.keys() - now.keys():
            log.info("%s is no longer served", kind.name)
            self._changed()
        return started


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
        super().__init__(factory, kind.path(version), kind.name, self._decode, cache, cache)
        self.version = version
        self._kind = kind
        self._before = list(before)

    def objects(self) -> list[ObjectRequests]:
        return self.cache.items() if self.synced else self._before

    def _decode(self, raw: Raw) -> tuple[str, str, ObjectRequests | None]:
        """Raises ValueError for an object without a name."""
        read = read_object(self._kind, self.version, raw, read_annotations)
        if not read.workload.name:
            raise ValueError(read.problem)
        name = key(read.workload.namespace, read.workload.name)
        return name, read.version, read if read.requests or read.problem else None


class _ObjectRequestsCache(Cache[ObjectRequests]):
    """Keeps the objects that ask for something, and logs once for each that cannot be read."""

    def __init__(self, kind: str, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._kind = kind
        self._wake = changed

    def replace(self, items: Mapping[str, ObjectRequests | None]) -> None:
        kept = {name: read for name, read in items.items() if read is not None}
        for name, read in kept.items():
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

    def _log_problem(self, name: str, read: ObjectRequests) -> None:
        known = self._items.get(name)
        if read.problem and (known is None or known.problem != read.problem):
            log.warning("%s %s: %s", self._kind, name, read.problem)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What workloads ask of one topology."""

    required: WorkloadsByLevel = field(default_factory=dict)
    """By domain: levels that the topology has."""
    missing: WorkloadsByLevel = field(default_factory=dict)
    """By domain where that is known, else by label key: levels that it lacks."""
    preferred: WorkloadsByLevel = field(default_factory=dict)
    """By either: workloads that prefer a level, of those it has or lacks, and do not require it as well."""


_Collected = dict[str, dict[WorkloadRef, None]]


def resolve(
    levels: Mapping[str, Sequence[Level]],
    requests: Mapping[WorkloadRef, Sequence[LevelRequest]],
    catalogue: Catalogue = BUILT_IN,
    names: LevelNames = MappingProxyType({}),
) -> dict[str, Resolved]:
    """What `requests` ask of each topology in `levels` (its effective levels, by the topology's name): pure.

    `names`: other names that requests have for levels.

    A request concerns the topology that it names, and none when that is not ours. One that names none concerns every
    topology that has the level; where none has it, the one called `cluster`, or all.
    """
    domains: dict[str, dict[str, str]] = {}
    for name, its_levels in levels.items():
        terms = domains[name] = {}
        for level in its_levels:
            terms[level.domain] = terms[level.key] = level.domain
        terms.update(names.get(name, {}))
    required: dict[str, _Collected] = {name: {} for name in levels}
    missing: dict[str, _Collected] = {name: {} for name in levels}
    preferred: dict[str, _Collected] = {name: {} for name in levels}
    for request, workloads in _by_request(requests).items():
        candidates = [name for name in levels if request.topology in (None, name)]
        having = [name for name in candidates if request.level in domains[name]]
        for name in having:
            collected = (required if request.required else preferred)[name]
            collected.setdefault(domains[name][request.level], {}).update(workloads)
        if having:
            continue
        for name in [MAIN] if MAIN in candidates else candidates:
            lacking = _lacking(request, domains[name], catalogue)
            if lacking is not None:
                (missing if request.required else preferred)[name].setdefault(lacking, {}).update(
                    workloads
                )
    return {
        name: Resolved(
            _tuples(required[name]),
            _tuples(missing[name]),
            _tuples(_only_preferring(preferred[name], {**missing[name], **required[name]})),
        )
        for name in levels
    }


def _only_preferring(preferred: _Collected, required: _Collected) -> _Collected:
    """Workloads that prefer a level without requiring it too; levels without any are left out."""
    left = {
        level: {workload: None for workload in workloads if workload not in required.get(level, ())}
        for level, workloads in preferred.items()
    }
    return {level: workloads for level, workloads in left.items() if workloads}


def _by_request(
    requests: Mapping[WorkloadRef, Sequence[LevelRequest]],
) -> dict[LevelRequest, dict[WorkloadRef, None]]:
    """Thousands of workloads ask for the same few levels."""
    workloads: dict[LevelRequest, dict[WorkloadRef, None]] = {}
    for workload, asked in requests.items():
        for request in asked:
            workloads.setdefault(request, {})[workload] = None
    return workloads


def _lacking(request: LevelRequest, domains: Mapping[str, str], catalogue: Catalogue) -> str | None:
    """The name of a level that a topology lacks; None: it may not lack it.

    A label of the catalogue stands for its domain, so that a level keeps its name when it has left
    the inferred levels. Where the topology has the domain by another label it is the label that is
    missing; pod affinity may well find it on the nodes, as it may any label that is not in the
    catalogue.
    """
    domain = catalogue.domain_of.get(request.level)
    if domain is not None and domain not in domains:
        return domain
    return None if request.any_label else request.level


def _tuples(collected: _Collected) -> dict[str, tuple[WorkloadRef, ...]]:
    return {name: tuple(workloads) for name, workloads in sorted(collected.items())}
