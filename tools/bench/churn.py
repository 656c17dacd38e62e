"""The life of a cluster: nodes come, go, flap and move, a rack goes dark, workloads and topologies come and go.

Every hour is like every other, with other names: what grows from hour to hour was not given back.
"""

import random
from collections import deque
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from tools.bench.workspace import MeasurementError
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN, STATE
from toposcope.kube.requests import NODES
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import Request
from toposcope.simulator.cluster import RACK_KEY, large_cluster
from toposcope.simulator.machine import identity

STEPS: Final = 120
"""In an hour, 30 s each."""
_CUT: Final = 15
"""Steps from one end of all watches to the next."""
_DARK: Final = (20, 50)
"""The steps in which a rack vanishes and comes back."""
_EDIT: Final = 24
_REFUSE: Final = 70
_EXPIRE: Final = 3
"""Every so many hours the server forgets all changes."""
BEATS: Final = 100
"""A step: half of what 2,000 kubelets with nothing to say send, every five minutes each."""
_REPLACE: Final = 4
_SETS: Final = 20
_FINE: Final = frozenset({200, 201, 404})
_JOBSETS: Final = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"

JOBSET_CRD: Final = yaml.safe_load(Path(__file__).with_name("jobset_crd.yaml").read_text(encoding="utf-8"))


def call(server: EmbeddedApiServer, method: str, path: str, body: Any = None) -> int:
    """A request past the network; its HTTP status. Raises MeasurementError when the server finds fault with it."""
    headers = {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    text = b"" if body is None else msgspec.json.encode(body)
    answer = server.api.handle(Request(method, path, {}, headers, text))
    if answer.code not in _FINE:
        raise MeasurementError(f"{method} {path}: {b''.join(answer.chunks).decode()[:200]}")
    return answer.code


class Churn:
    """Changes a cluster on an API server, one step of 30 s after the other."""

    def __init__(self, server: EmbeddedApiServer, nodes: int, rng: random.Random, beats: int = BEATS) -> None:
        self._server = server
        self._beats = beats
        self._rng = rng
        self._made = nodes
        self._nodes: dict[str, dict[str, Any]] = {node["metadata"]["name"]: node for node in large_cluster(nodes)}
        self._undo: list[dict[str, Any]] = []
        """Nodes as they shall be again in the next step."""
        self._dark: list[dict[str, Any]] = []
        self._sets: deque[str] = deque()
        server.load(self._nodes.values())
        self.put_topology("cluster", {"publish": {"kai": "Never"}, "required": ["rack"]})
        self.put_topology("second", {"publish": {"kai": "Never"}})

    @property
    def nodes(self) -> int:
        """How many there are now."""
        return len(self._nodes)

    def step(self, hour: int, step: int) -> None:
        """What happens in the `step`-th half minute of an hour."""
        self._server.load(self._undo)
        self._undo = []
        self._server.load(
            self._some(self._beats)
        )  # kubelets report: the object changes, and nothing that anybody keeps
        self._flap()
        (moved,) = self._some(1)
        self._for_a_moment(moved, _relabelled(moved, {RACK_KEY: f"rack-{hour}-{step}"}))
        self._workload(f"set-{hour}-{step}")
        if step % _REPLACE == 0:
            self._replace()
        if step in _DARK:
            self._rack()
        if step % _EDIT == 0:
            self._edit(hour, step)
        if step == _REFUSE:
            self._server.faults.reject(500, 3)
            self._server.faults.reject(429, 3, retry_after=1)
        if step % _CUT == 0:
            self._server.faults.cut_watches()
        if step == 0 and hour % _EXPIRE == 0:
            self._server.faults.expire_history()

    def put_topology(self, name: str, spec: dict[str, Any]) -> None:
        """Make or change a ClusterTopology."""
        path = f"{PATH}/{name}"
        if self._call("PATCH", path, {"spec": spec}) == 404:  # noqa: PLR2004 - not found
            self._server.load([{"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}])

    def status(self, name: str = "cluster") -> dict[str, Any]:
        """What the controller says of a ClusterTopology."""
        answer = self._server.api.handle(Request("GET", f"{PATH}/{name}", {}, {}))
        return msgspec.json.decode(b"".join(answer.chunks)).get("status") or {}

    def _call(self, method: str, path: str, body: Any = None) -> int:
        return call(self._server, method, path, body)

    def _some(self, count: int) -> list[dict[str, Any]]:
        return [self._nodes[name] for name in self._rng.sample(sorted(self._nodes), count)]

    def _flap(self) -> None:
        """One node is not ready, another not well, for a moment."""
        down, ill = self._some(2)
        changed = {**down, "status": deepcopy(down["status"])}
        next(state for state in changed["status"]["conditions"] if state["type"] == "Ready")["status"] = "False"
        self._for_a_moment(down, changed)
        self._for_a_moment(ill, _relabelled(ill, {STATE: "degraded"}))

    def _for_a_moment(self, node: dict[str, Any], changed: dict[str, Any]) -> None:
        self._server.load([changed])
        self._undo.append(node)

    def _replace(self) -> None:
        """A node goes for good, and one with a name that was never there comes into its place."""
        (old,) = self._some(1)
        self._remove(old)
        name = f"gpu-new-{self._made:06}"
        alone = old["metadata"]["labels"][NVLINK_DOMAIN] == old["metadata"]["name"]
        new = _relabelled(old, {HOSTNAME: name} | ({NVLINK_DOMAIN: name} if alone else {}))
        new["metadata"] = {**new["metadata"], "name": name, "uid": str(identity("soak", name))}
        self._made += 1
        self._nodes[name] = new
        self._server.load([new])

    def _rack(self) -> None:
        """A rack vanishes, or the one that did comes back."""
        if self._dark:
            back, self._dark = self._dark, []
            self._nodes |= {node["metadata"]["name"]: node for node in back}
            self._server.load(back)
            return
        rack = self._some(1)[0]["metadata"]["labels"][RACK_KEY]
        self._dark = [node for node in self._nodes.values() if node["metadata"]["labels"][RACK_KEY] == rack]
        for node in self._dark:
            self._remove(node)

    def _remove(self, node: dict[str, Any]) -> None:
        name = node["metadata"]["name"]
        del self._nodes[name]
        self._undo = [node for node in self._undo if node["metadata"]["name"] != name]
        self._call("DELETE", f"{NODES}/{name}")

    def _workload(self, name: str) -> None:
        """One workload comes, the oldest goes; some ask for a level that no topology has."""
        level = RACK_KEY if self._rng.random() < 0.7 else f"example.com/{name}"  # noqa: PLR2004 - most
        metadata = {"name": name, "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": level}}
        document = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {}}
        self._call("POST", _JOBSETS, document)
        self._sets.append(name)
        if len(self._sets) > _SETS:
            self._call("DELETE", f"{_JOBSETS}/{self._sets.popleft()}")

    def _edit(self, hour: int, step: int) -> None:
        """The second topology asks for something else; a third comes, with another uid each time, and goes."""
        self.put_topology("second", {"required": ["rack"] if step % (2 * _EDIT) else ["block", f"level-{hour}-{step}"]})
        if self._call("DELETE", f"{PATH}/third") == 404:  # noqa: PLR2004 - not found
            self.put_topology("third", {"required": [f"level-{hour}"], "publish": {"kai": "Never"}})


def _relabelled(node: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """A node that shares everything else with the one given."""
    metadata = node["metadata"]
    return {**node, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}
