"""Follows every source that the cluster serves, each in a thread of its own, as they come and go."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from toposcope.controller.informer import Cache, Informer, is_not_found
from toposcope.integrations.dynamo import level_requests as dynamo
from toposcope.integrations.framework.level_requests import LevelRequest, Reading, Source, WorkloadRef, read, roll_up
from toposcope.integrations.grove import level_requests as grove
from toposcope.integrations.jobset import level_requests as jobset
from toposcope.integrations.kai import level_requests as kai
from toposcope.integrations.kubernetes import level_requests as workloads
from toposcope.integrations.kueue import level_requests as kueue
from toposcope.integrations.lws import level_requests as leaderworkerset
from toposcope.kube.client import ApiClient
from toposcope.kube.discovery import Served, discover, is_gone
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import EtcdRestores, Observer, Raw, Stop, key

log = logging.getLogger(__name__)

SOURCES: Final = (
    dynamo.SOURCE,
    grove.SOURCE,
    kai.SOURCE,
    kueue.SOURCE,
    leaderworkerset.SOURCE,
    jobset.SOURCE,
    *workloads.SOURCES,
)


class Requirements:
    """What the workloads of the cluster ask for, kept up to date. `changed` is called from other threads.

    `refresh`, `sync` and `close` belong to one thread; everything else may be asked from any.
    """

    def __init__(
        self,
        client: ApiClient,
        changed: Callable[[], None],
        stop: Stop,
        sources: Sequence[Source] = SOURCES,
        observer: Observer | None = None,
        restores: EtcdRestores | None = None,
    ) -> None:
        self._observer = observer
        self._restores = restores
        self._client = client
        self._changed = changed
        self._stop = stop
        self._sources = sources
        self._found = False
        self._error = ""
        self._followed: Mapping[Source, _SourceInformer] = {}

    def refresh(self, served: Served | None = None) -> None:
        """Find what is served, and follow that. Where it cannot be found out, everything stays as it is.

        To be called about once a minute, and at once when `outdated`. `served` is what discovery has just said; without
        it discovery is asked.
        """
        try:
            started = self._find(served)
        except KubeError as error:
            self.blind(error)
            return
        for followed in started:
            followed.start()

    def blind(self, error: KubeError) -> None:
        """What is served cannot be found out just now."""
        log.warning("cannot find out which workloads this cluster serves: %s", error)
        self._error = str(error)

    def sync(self) -> None:
        """Find what is served and list it once, without following it: for a single pass. Raises KubeError."""
        self._find()
        for followed in self._followed.values():
            followed.sync()

    def close(self) -> None:
        """Follow nothing any more."""
        for followed in self._followed.values():
            followed.end()

    @property
    def synced(self) -> bool:
        """Whether everything that is served has been listed at least once: only then is a missing need no need."""
        return self._found and all(followed.synced for followed in self._followed.values())

    @property
    def outdated(self) -> bool:
        """Whether something that is followed has ceased to be served."""
        return any(followed.not_found for followed in self._followed.values())

    @property
    def following(self) -> list[str]:
        """What is served and followed, as `jobsets.jobset.x-k8s.io/v1`."""
        return [f"{source.name}/{followed.version}" for source, followed in self._followed.items()]

    def needs(self) -> dict[WorkloadRef, tuple[LevelRequest, ...]]:
        """The needs of each workload that has some."""
        return roll_up(reading for followed in self._followed.values() for reading in followed.readings())

    def failing(self) -> dict[str, str]:
        """What cannot be read just now, and why; what was known of it stands."""
        failures = {source.name: str(f.error) for source, f in self._followed.items() if f.error}
        return failures | ({"discovery": self._error} if self._error else {})

    def _find(self, said: Served | None = None) -> list["_SourceInformer"]:
        """Bring what is followed in line with what is served; what is new, still to be started. Raises KubeError."""
        before = self._followed
        said = said or discover(self._client, self._sources)
        served = {source: version for source in self._sources if (version := said.version(source))}
        for source, followed in before.items():
            if source not in served and followed.synced and not is_gone(self._client, followed.path):
                served[source] = followed.version
        groups = {source.group for source in served if not source.only_with}
        now: dict[Source, _SourceInformer] = {}
        started = []
        for source, version in served.items():
            if source.only_with and not source.only_with & groups:
                continue
            old = before.get(source)
            if old is None or old.version != version:
                log.info("following %s in version %s", source.name, version)
                before_that = old.readings() if old else ()
                old = _SourceInformer(
                    self._client,
                    source,
                    version,
                    self._changed,
                    self._stop,
                    before_that,
                    observer=self._observer,
                    restores=self._restores,
                )
                started.append(old)
            now[source] = old
        self._followed, self._found, self._error = now, True, ""
        for source, followed in before.items():
            if now.get(source) is not followed:
                followed.end()
        for source in before.keys() - now.keys():
            log.info("%s is no longer served", source.name)
            self._changed()
        return started


class _SourceInformer(Informer[Reading]):
    """One source in one version. `before` is what was known from another version, until this one has been listed."""

    def __init__(
        self,
        client: ApiClient,
        source: Source,
        version: str,
        changed: Callable[[], None],
        stop: Stop,
        before: Iterable[Reading] = (),
        observer: Observer | None = None,
        restores: EtcdRestores | None = None,
    ) -> None:
        index = _ReadingCache(source.name, changed)
        path = f"/apis/{source.group}/{version}/{source.plural}"
        super().__init__(
            client, path, source.name, self._decode, index, index, stop, observer=observer, restores=restores
        )
        self.version = version
        self._source = source
        self._before = list(before)

    def readings(self) -> list[Reading]:
        return self.cache.items() if self.synced else self._before

    def _decode(self, raw: Raw) -> tuple[str, str, Reading | None]:
        """Raises ValueError for an object without a name."""
        reading = read(self._source, self.version, raw)
        if not reading.workload.name:
            raise ValueError(reading.problem)
        name = key(reading.workload.namespace, reading.workload.name)
        return name, reading.version, reading if reading.needs or reading.problem else None


class _ReadingCache(Cache[Reading]):
    """Keeps the objects that ask for something, and tells once of each that cannot be understood."""

    def __init__(self, source: str, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._source = source
        self._wake = changed

    def replace(self, items: Mapping[str, Reading | None]) -> None:
        kept = {name: reading for name, reading in items.items() if reading is not None}
        for name, reading in kept.items():
            self._tell(name, reading)
        super().replace(kept)

    def put(self, name: str, item: Reading | None) -> None:
        if item is None:
            self.gone(name)
        else:
            self._tell(name, item)
            super().put(name, item)

    def failing(self, error: KubeError | None) -> None:
        super().failing(error)
        if is_not_found(error):
            self._wake()  # no longer served: to be noticed now, not in a minute

    def _tell(self, name: str, reading: Reading) -> None:
        known = self._items.get(name)
        if reading.problem and (known is None or known.problem != reading.problem):
            log.warning("%s %s: %s", self._source, name, reading.problem)
