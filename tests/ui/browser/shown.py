"""A saved cluster behind the page's server, which a test changes step by step."""

import contextlib
import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from socket import socket
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tests.support.publishing import FOUR, spec_levels
from tests.support.saved import Object, cluster_topology, demo_nodes, pod, saved
from tests.ui.serving import Unfollowed, answering
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.bundle import Bundle
from toposcope.ui.facts import Facts
from toposcope.ui.program import address_of, listening
from toposcope.ui.saved import EXPECTED, SavedSource

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
    file = SCRIPTS / f"{name}.js"
    return file.read_text(encoding="utf-8")


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    """A condition as a status has it."""
    since = "2026-01-01T00:00:00Z"
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


def demo_objects() -> list[Object]:
    """A part of the demo: one node degraded, one without its rack, one without an agent, and a pod on another."""
    nodes = copy.deepcopy(demo_nodes(faulty=(FAULTY,), of=NODES))
    without_rack = labels(nodes, "l40s-4")
    del without_rack[RACK]
    without_agent = labels(nodes, "l40s-3")
    for key in list(without_agent):
        if key.startswith("gpu.topology/"):
            del without_agent[key]
    conditions = [
        condition("LevelsCovered", "False", "NodesMissingLevels", "Level 'rack' is missing on l40s-4"),
        condition("Ready", "False", "NodesMissingLevels", "Level 'rack' is missing on l40s-4"),
    ]
    has_agent = {"key": "gpu.topology/gpus", "operator": "Exists"}
    topology = cluster_topology(
        {"conditions": conditions},
        nodeSelector={"matchExpressions": [has_agent]},
        levels=spec_levels(*FOUR),
    )
    return [*nodes, topology, pod("trainer", "gb200-01", 3)]


def named(objects: list[Object], name: str) -> Object:
    """The object of a name."""
    by_name = {item["metadata"]["name"]: item for item in objects}
    return by_name[name]


def labels(objects: list[Object], name: str) -> dict[str, str]:
    """Its labels, to be changed."""
    return named(objects, name)["metadata"]["labels"]


class Shown:
    """The server on its port. `write` changes the cluster, and pages hear of it before it returns or soon after."""

    def __init__(self, path: Path, objects: list[Object], kind: Literal["cluster", "files"] = "cluster") -> None:
        self._path = path
        self._times = 0
        self._kind = kind
        self._save(saved(objects))
        self.facts = Facts(str(path), EXPECTED, lambda: None)
        self.source = SavedSource([str(path)], self.facts, Unfollowed())
        self.source.start()
        listener = listening("127.0.0.1", 0)
        self.address = address_of(listener)
        self._begin(listener)

    def _save(self, text: str) -> None:
        self._times += 1
        self._path.write_text(text)
        os.utime(self._path, (self._times, self._times))

    def _begin(self, listener: socket) -> None:
        self.broadcaster = Broadcaster(self.facts, self._kind, token_hex(4))
        self.broadcaster.tick()
        self._server = contextlib.ExitStack()
        self._server.enter_context(answering(listener, self.broadcaster, self.source, Bundle()))

    def write(self, objects: list[Object]) -> None:
        """Another state of the cluster."""
        self.corrupt(saved(objects))

    def corrupt(self, text: str) -> None:
        """Something that cannot be read."""
        self._save(text)
        self.source.look_again()
        self.broadcaster.tick()

    def ask(self, path: str, body: Any = None) -> dict[str, Any]:
        """The answer to a GET, or to the POST of a body."""
        sent = None if body is None else json.dumps(body).encode()
        asked = Request(f"{self.address}api/{path}", sent, {"Content-Type": "application/json"})  # noqa: S310 - our own
        with urlopen(asked, timeout=20) as answer:  # noqa: S310 - same
            found: dict[str, Any] = json.load(answer)
        return found

    def stop(self) -> None:
        """End the server."""
        self._server.close()

    def start_again(self) -> None:
        """Another server at the same address, which knows nothing of the one before."""
        self._begin(listening("127.0.0.1", urlsplit(self.address).port or 0))


@contextlib.contextmanager
def shown(folder: Path, objects: list[Object], **kind: Any) -> Iterator[Shown]:
    """The server for these objects; it ends with the block."""
    found = Shown(folder / "cluster.json", objects, **kind)
    try:
        yield found
    finally:
        found.stop()
