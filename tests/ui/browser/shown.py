"""A saved cluster behind the page's server, which a test changes step by step."""

import contextlib
import copy
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tests.support.saved import Object, cluster_topology, demo_nodes, pod, saved
from tests.ui.serving import Unfollowed
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.bundle import Bundle
from toposcope.ui.facts import Facts
from toposcope.ui.guard import LOCAL
from toposcope.ui.program import address_of, listening
from toposcope.ui.saved import EXPECTED, SavedSource
from toposcope.ui.server import Server, application
from toposcope.ui.stream import Stream

RACK = "cloud.google.com/gce-topology-subblock"
FAULTY = "h200-3"
SCRIPTS = Path(__file__).with_name("scripts")
NODES = (
    "gb200-01",
    "gb200-02",
    "gb200-03",
    *(f"l40s-{i}" for i in (1, 2, 3, 4)),
    *(f"h200-{i}" for i in (1, 2, 3, 4, 5, 6)),
)


def script(name: str) -> str:
    """A function that runs in the page."""
    return (SCRIPTS / f"{name}.js").read_text(encoding="utf-8")


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    """A condition as a status has it."""
    since = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def demo_objects() -> list[Object]:
    """A part of the demo: one node degraded, one without its rack, one without an agent, and a pod on another."""
    nodes = copy.deepcopy(demo_nodes(faulty=(FAULTY,), of=NODES))
    labels(nodes, "l40s-4").pop(RACK)
    strange = labels(nodes, "l40s-3")
    for key in [key for key in strange if key.startswith("gpu.topology/")]:
        strange.pop(key)
    uncovered = condition("LevelsCovered", "False", "NodesMissingLevels", "Level 'rack' is missing on l40s-4")
    ready = condition("Ready", "False", "NodesMissingLevels", "Level 'rack' is missing on l40s-4")
    topology = cluster_topology(
        {"conditions": [uncovered, ready]},
        nodeSelector={"matchExpressions": [{"key": "gpu.topology/gpus", "operator": "Exists"}]},
        levels=[
            {"domain": "zone", "key": "topology.kubernetes.io/zone"},
            {"domain": "block", "key": "cloud.google.com/gce-topology-block"},
            {"domain": "rack", "key": RACK},
            {"domain": "host", "key": "kubernetes.io/hostname"},
        ],
    )
    return [*nodes, topology, pod("trainer", "gb200-01", 3)]


def named(objects: list[Object], name: str) -> Object:
    """The object of a name."""
    return next(obj for obj in objects if obj["metadata"]["name"] == name)


def labels(objects: list[Object], name: str) -> dict[str, str]:
    """Its labels, to be changed."""
    return named(objects, name)["metadata"]["labels"]


class Shown:
    """The server on its port. `write` changes the cluster, and pages hear of it before it returns or soon after."""

    def __init__(self, path: Path, objects: list[Object], kind: Literal["cluster", "files"] = "cluster") -> None:
        self._path = path
        self._times = 0
        self._kind: Literal["cluster", "files"] = kind
        self._save(objects)
        self.facts = Facts(str(path), EXPECTED, lambda: None)
        self.source = SavedSource([str(path)], self.facts, Unfollowed())
        self.source.start()
        self._listener = listening("127.0.0.1", 0)
        self.address = address_of(self._listener)
        self._life = 0
        self._begin()

    def _save(self, objects: list[Object]) -> None:
        self._times += 1
        self._path.write_text(saved(objects))
        os.utime(self._path, (self._times, self._times))

    def _begin(self) -> None:
        self._life += 1
        self.broadcaster = Broadcaster(self.facts, self._kind, f"life{self._life}")
        self.broadcaster.tick()
        stream = Stream(self.broadcaster)
        answering = threading.Event()
        app = application(self.broadcaster, self.source, Bundle(), stream, LOCAL)
        self._server = Server(app, stream, answering.set)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread.start()
        assert answering.wait(20)

    def write(self, objects: list[Object]) -> None:
        """Another state of the cluster."""
        self._save(objects)
        self.source.look_again()
        self.broadcaster.tick()

    def corrupt(self, text: str) -> None:
        """Something that cannot be read."""
        self._times += 1
        self._path.write_text(text)
        os.utime(self._path, (self._times, self._times))
        self.source.look_again()
        self.broadcaster.tick()

    def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    def start_again(self) -> None:
        """Another server at the same address, which knows nothing of the one before."""
        host, port = "127.0.0.1", int(self.address.rstrip("/").rpartition(":")[2])
        self._listener = listening(host, port)
        self._begin()


@contextlib.contextmanager
def shown(folder: Path, objects: list[Object], **kind: Any) -> Iterator[Shown]:
    """The server for these objects; it ends with the block."""
    found = Shown(folder / "cluster.json", objects, **kind)
    try:
        yield found
    finally:
        found.stop()
