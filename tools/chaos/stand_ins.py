"""What else lives in the cluster: Grove's operator, the garbage collector, a busy kubelet.

Nothing but an API server runs here, so somebody has to do their work. Each turn is at most once a
second.
"""

import contextlib
import json
import threading
from typing import Any, Final, Self

from tools.apiserver.client import MERGE, AdminApi
from tools.apiserver.grove_operator import GroveExitError, start_grove
from tools.chaos.cluster import BEAT, NODES, PUBLISHED, TOPOLOGIES

_PAUSE_SECONDS: Final = 1.0
_TROUBLE: Final = (
    OSError,
    AssertionError,
    KeyError,
    TypeError,
    ValueError,
    GroveExitError,
    json.JSONDecodeError,
)
"""What any of them may run into while the server is being broken."""


class StandIns:
    """A thread that does their work; a context manager."""

    def __init__(self, api: AdminApi, nodes: list[str], passing: dict[str, Any]) -> None:
        self._api = api
        self._nodes = nodes
        self._passing = passing
        self.is_busy = False
        """Whether a Node comes and goes.

        It gives the controller something to write about all the time.
        """
        self.is_here = False
        """Whether that Node is to come, and to stay."""
        self._stop = threading.Event()
        self._beats = 0
        self._thread = threading.Thread(
            target=self._live,
            name="neighbours",
            daemon=True,
        )

    def _live(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            self.turn()

    def turn(self, *, is_idle: bool = False) -> None:
        """Let each of them do its work once.

        `is_idle` says that nothing has changed for those who look at objects.
        """
        lookers = (
            () if is_idle else (lambda: collect_garbage(self._api), lambda: start_grove(self._api))
        )
        for work in (self._report, self._come_and_go, *lookers):
            with contextlib.suppress(*_TROUBLE):
                work()

    def _report(self) -> None:
        """Change what others own on a Node, one after the other."""
        self._beats += 1
        turn = self._beats % len(self._nodes)
        node = self._nodes[turn]
        path = f"{NODES}/{node}"
        annotations = {BEAT: str(self._beats)}
        beat = {"metadata": {"annotations": annotations}}
        self._api.request("PATCH", path, beat, content_type=MERGE)

    def _come_and_go(self) -> None:
        name = self._passing["metadata"]["name"]
        path = f"{NODES}/{name}"
        code, _ = self._api.request("GET", path)
        is_there = code == 200
        if is_there and not self.is_here:
            self._api.request("DELETE", path)
            return

        is_wanted = self.is_here or self.is_busy
        if is_wanted and not is_there:
            self._api.request("POST", NODES, self._passing)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()


def collect_garbage(api: AdminApi) -> None:
    """Delete what was published for a ClusterTopology that is gone."""
    code, topologies = api.request("GET", TOPOLOGIES)
    if code not in (200, 404):
        return

    living: set[str] = set()
    if code == 200:
        for item in topologies["items"]:
            uid = item["metadata"]["uid"]
            living.add(uid)

    for collection in PUBLISHED:
        code, listed = api.request("GET", collection)
        if code != 200:
            continue
        for item in listed["items"]:
            name = item["metadata"]["name"]
            owners = _owners(item)
            if owners and owners.isdisjoint(living):
                api.request("DELETE", f"{collection}/{name}")


def _owners(item: dict[str, Any]) -> set[str]:
    """The ClusterTopologies that own an object."""
    uids = set()
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner["apiVersion"].startswith("gpu.topology/"):
            uids.add(owner["uid"])
    return uids
