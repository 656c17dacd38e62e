"""Which kinds of workloads and published resources the cluster serves.

They are watched as they come and go.
"""

import logging
import math
from collections.abc import Callable
from typing import Final

import msgspec

from toposcope.controller.informer import Cache, Informer, InformerFactory
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.requirements import Requirements
from toposcope.integrations.registry import FOLLOWED, WATCHED
from toposcope.kube.client import METADATA
from toposcope.kube.discovery import discover
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import Raw

log = logging.getLogger(__name__)

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OURS: Final = {kind.name for kind in WATCHED} | {kind.name for kind in FOLLOWED}
_RESYNC_SECONDS: Final = 60.0
_AFTER_CRD_CHANGE: Final = (0.0, 1.0, 3.0, 10.0)
"""When to ask after a CRD has changed, in seconds: discovery shows the change some seconds
later."""


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


_OBJECT: Final = msgspec.json.Decoder(_Object)


def _decode(raw: Raw) -> tuple[str, str, str]:
    """Name and resourceVersion of a CRD; discovery has the rest."""
    meta = _OBJECT.decode(raw).metadata
    # Changes of unrelated CRDs do not matter.
    return meta.name, meta.resource_version, meta.resource_version if meta.name in _OURS else ""


class ResourceDiscovery:
    """Asks once a minute, after a CRD changed, or when a kind is gone.

    `changed` wakes the thread that calls `look`.
    """

    def __init__(
        self,
        informers: InformerFactory,
        workloads: Requirements,
        published: CachedReader | None,
        changed: Callable[[], None],
    ) -> None:
        self._client = informers.client
        self._workloads = workloads
        self._published = published
        self._changed = changed
        self._runtime = informers.runtime
        self._crd_changed = informers.runtime.event()
        self._due = [self._runtime.monotonic()]
        """When to ask next, soonest first."""
        cache: Cache[str] = Cache(self._on_crd_change)
        self._crds = Informer(
            informers,
            _CRDS,
            name="crds",
            decode=_decode,
            cache=cache,
            handler=cache,
            accept=METADATA,
        )

    def start(self) -> None:
        """Watch the CRDs."""
        self._crds.start()

    def close(self) -> None:
        """Stop all watches."""
        self._crds.end()
        self._workloads.close()
        if self._published:
            self._published.close()

    def look(self) -> float:
        """Ask discovery if due.

        Seconds until the next time, infinite if a resync is soon enough. Raises nothing.
        """
        now = self._runtime.monotonic()
        if self._crd_changed.is_set():
            self._crd_changed.clear()
            self._due = [now + wait for wait in (*_AFTER_CRD_CHANGE, _RESYNC_SECONDS)]
        if self._is_outdated() or now >= self._due[0]:
            self._due = [due for due in self._due if due > now]
            if not self._due:
                self._due = [now + _RESYNC_SECONDS]
            self._ask()
        if len(self._due) == 1:
            return math.inf
        return max(self._due[0] - self._runtime.monotonic(), 0.0)

    def _is_outdated(self) -> bool:
        """Whether a watched kind is no longer served."""
        if self._workloads.is_outdated:
            return True
        return self._published is not None and self._published.is_outdated

    def _ask(self) -> None:
        try:
            served = discover(self._client, (*WATCHED, *FOLLOWED))
            if self._published:
                self._published.refresh(served, self._changed)
        except KubeError as error:
            self._workloads.discovery_failed(error)
            return
        self._workloads.refresh(served)

    def _on_crd_change(self) -> None:
        self._crd_changed.set()
        if self._published:
            self._published.schemas += 1
        self._changed()
