"""What else the cluster serves: kinds of workloads and published kinds, found and followed as they come and go."""

import logging
import math
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from toposcope.controller.informer import Following, Index
from toposcope.controller.publishers.cached_reader import Watched
from toposcope.controller.requirements.informers import SOURCES, Requirements
from toposcope.integrations.framework.published import ALL
from toposcope.kube.client import METADATA, ApiClient
from toposcope.kube.discovery import discover
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import Observer, Raw, Restores, Stop

log = logging.getLogger(__name__)

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OURS: Final = frozenset(f"{kind.plural}.{kind.group}" for kind in (*SOURCES, *ALL))
_RESYNC_SECONDS: Final = 60.0
_AFTERWARDS: Final = (0.0, 1.0, 3.0, 10.0)
"""When to look after a CRD has changed, in seconds: discovery shows it some seconds later."""


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


_OBJECT: Final = msgspec.json.Decoder(_Object)


def _decode(raw: Raw) -> tuple[str, str, str]:
    """Name and resourceVersion of a CRD; what else it says is up to discovery."""
    meta = _OBJECT.decode(raw).metadata
    # Nobody here has to know how often a CRD of somebody else's changes.
    return meta.name, meta.resource_version, meta.resource_version if meta.name in _OURS else ""


class Surroundings:
    """Asks discovery once a minute, when a CRD that matters has changed, and when something followed has gone.

    `changed` wakes the thread that calls `look`; `published` is None where nothing published is to be followed.
    """

    def __init__(
        self,
        client: ApiClient,
        workloads: Requirements,
        published: Watched | None,
        changed: Callable[[], None],
        stop: Stop,
        monotonic: Callable[[], float],
        observer: Observer | None = None,
        restores: Restores | None = None,
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._published = published
        self._changed = changed
        self._monotonic = monotonic
        self._stirred = threading.Event()
        self._looks = [monotonic()]
        """When to ask next, soonest first."""
        index: Index[str] = Index(self._stir)
        self._crds = Following(
            client, _CRDS, "crds", _decode, index, index, stop, accept=METADATA, observer=observer, restores=restores
        )

    def start(self) -> None:
        """Follow the CRDs."""
        self._crds.start()

    def close(self) -> None:
        """Follow nothing any more."""
        self._crds.end()
        self._workloads.close()
        if self._published:
            self._published.close()

    def look(self) -> float:
        """Ask discovery if that is due; seconds until it should be asked again. Never raises a KubeError.

        Infinite when there is no hurry: whoever calls this looks at everything once a minute.
        """
        now = self._monotonic()
        if self._stirred.is_set():
            self._stirred.clear()
            self._looks = [now + wait for wait in (*_AFTERWARDS, _RESYNC_SECONDS)]
        gone = self._workloads.outdated or (self._published is not None and self._published.outdated)
        if gone or now >= self._looks[0]:
            self._looks = [due for due in self._looks if due > now] or [now + _RESYNC_SECONDS]
            self._ask()
        hurried = len(self._looks) > 1
        return max(self._looks[0] - self._monotonic(), 0.0) if hurried else math.inf

    def _ask(self) -> None:
        try:
            served = discover(self._client, (*SOURCES, *ALL))
            if self._published:
                self._published.refresh(served, self._changed)
        except KubeError as error:
            self._workloads.blind(error)
            return
        self._workloads.refresh(served)

    def _stir(self) -> None:
        self._stirred.set()
        self._changed()
