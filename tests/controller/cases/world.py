"""A cluster in which the cases are played: an API server with upstream's CRDs, the controller, Grove's part."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml
from tests.controller.cases.model import LEVELS_AVAILABLE, Machine, Spec, Status, Verdict, Workload
from tests.support.api import NODES, ApiUnderTest
from tests.support.controller import READY, controller_of
from tests.support.paths import CRD
from tests.support.publishing import BINDINGS, KAI, Time, found, install
from tests.support.upstream_crds import stand_in
from tools.apiserver.grove_operator import start_grove
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.api.conditions import ADVISORY
from toposcope.controller.loop import Controller
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.integrations.grove.publisher import GrovePublisher
from toposcope.integrations.kai.publisher import KaiPublisher
from toposcope.integrations.kueue.publisher import KueuePublisher
from toposcope.kube.client import ApiClient

KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2/topologies"
UPSTREAM: Final = (
    "grove-clustertopologybindings-alpha10",
    "grove-podcliquesets-alpha12",
    "kai-topologies-v0.17",
    "kai-podgroups-v0.17",
    "kueue-topologies-v0.19",
    "kueue-resourceflavors-v0.19",
)
_WORKLOADS: Final = stand_in("kueue.x-k8s.io", "v1beta2", "Workload", "workloads")
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
_ROUNDS: Final = 3
"""A deleted binding costs one pass to see its KAI Topology go, one to write, one to see both."""


class World:
    """One API server for all cases; `begin` and `end` enclose one of them."""

    def __init__(self, api: ApiUnderTest, client: ApiClient) -> None:
        self.api = api
        self._client = client
        self._time = Time()
        self._made: list[str] = []
        self._uids: dict[str, str] = {}
        install(api, *UPSTREAM)
        for crd in (_WORKLOADS, yaml.load(CRD.read_bytes(), yaml.CSafeLoader)):
            api.install_crd(crd)
        self._controller = self._new_controller()

    def restart(self) -> None:
        """Begin again with a controller that remembers nothing."""
        self._controller = self._new_controller()

    def begin(self, nodes: Sequence[Machine], workloads: Sequence[Workload] = ()) -> None:
        """Create what exists before the first pass, except the ClusterTopologies."""
        self.restart()
        self.add_nodes(nodes)
        for workload in workloads:
            self._offer(workload)

    def start(self, nodes: Sequence[Machine], spec: Spec, workloads: Sequence[Workload] = ()) -> None:
        """Begin with a ClusterTopology `cluster`, and reconcile."""
        self.begin(nodes, workloads)
        self.make_topology("cluster", spec)
        self.reconcile()

    def topology(self, name: str) -> Any:
        """One ClusterTopology."""
        return self.api.get(f"{PATH}/{name}")

    def events_on(self, workload: str) -> tuple[tuple[str, str], ...]:
        """Type and note of the Events on a workload."""
        events = self.api.get(_EVENTS)["items"]
        about = []
        for event in events:
            if event["regarding"].get("uid") == self._uids[workload]:
                about.append((event["type"], event["note"]))
        return tuple(sorted(about))

    def make(self, name: str, spec: Spec) -> None:
        """Create a ClusterTopology that the server accepts."""
        code, answer = self.make_topology(name, spec)
        assert code == 201, answer

    def publish(self, name: str, spec: Spec) -> None:
        """Create a ClusterTopology, and reconcile."""
        self.make(name, spec)
        self.reconcile()

    def make_topology(self, name: str, spec: Spec) -> tuple[int, Any]:
        """Create a ClusterTopology; the server's answer."""
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": dict(spec),
        }
        return self.api.request("POST", PATH, body)

    def reconcile(self, after: float = 0) -> None:
        """Run the controller and Grove, so much later, until nothing is left to do; Grove has no reason to exit."""
        self.pass_time(after)
        for _ in range(_ROUNDS):
            self._controller.once()
            start_grove(self.api)
        self._controller.once()

    def end(self) -> None:
        """Remove what the case made: the garbage collector does not run here."""
        for path in (*self._made, PATH, BINDINGS, KAI, KUEUE, NODES, _EVENTS):
            code, answer = self.api.request("DELETE", path)
            assert code in {200, 404}, answer
        self._made.clear()
        self._uids.clear()

    def close(self) -> None:
        """Remove the CRDs."""
        for crd in self.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
            self.api.remove_crd(crd["metadata"]["name"])

    # What happens in between

    def add_nodes(self, nodes: Sequence[Machine]) -> None:
        for node in nodes:
            labels = dict(node.labels)
            allocatable: dict[str, str] = {}
            if node.gpus:
                labels["gpu.topology/gpus"] = str(node.gpus)
                allocatable["nvidia.com/gpu"] = str(node.gpus)
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node.name, "labels": labels},
                "spec": {
                    "unschedulable": node.cordoned,
                    "taints": list(node.taints),
                },
                "status": {
                    "conditions": [READY],
                    "allocatable": allocatable,
                },
            }
            self.api.create(NODES, body)

    def label(self, node: str, **changes: Any) -> None:
        self.api.patch(f"{NODES}/{node}", {"metadata": {"labels": changes}})

    def delete(self, path: str) -> None:
        code, answer = self.api.request("DELETE", path)
        assert code == 200, answer

    def pass_time(self, seconds: float) -> None:
        self._time.seconds += seconds

    def status_of(self, name: str = "cluster", workloads: Iterable[str] = ()) -> Status:
        """What the API server holds about one ClusterTopology, with the Events on some workloads."""
        topology = self.topology(name)
        status = topology["status"]
        assert status["observedGeneration"] == topology["metadata"]["generation"]
        return Status(
            path=status["levelPath"],
            domains=tuple(level["domains"] for level in status["levels"]),
            required_by=_counts(status.get("requiredBy")),
            preferred_by=_counts(status.get("preferredBy")),
            missed=_missed(status.get("preferredBy")),
            conditions=_untrue(status["conditions"]),
            grove=self._bound_levels(name),
            kai=self._node_labels(f"{KAI}/{name}"),
            kueue=self._node_labels(f"{KUEUE}/{name}"),
            events={workload: self.events_on(workload) for workload in workloads},
        )

    def _bound_levels(self, name: str) -> tuple[tuple[str, str], ...] | None:
        binding = found(self.api, f"{BINDINGS}/{name}")
        if binding is None:
            return None
        pairs = []
        for level in binding["spec"]["levels"]:
            pairs.append((level["domain"], level["key"]))
        return tuple(pairs)

    def _node_labels(self, path: str) -> tuple[str, ...] | None:
        topology = found(self.api, path)
        if topology is None:
            return None
        return tuple(level["nodeLabel"] for level in topology["spec"]["levels"])

    def _offer(self, workload: Workload) -> None:
        """Create a workload; one that upstream's rules refuse is refused where a server knows such rules."""
        if workload.refused and not self.api.is_real:
            return
        code, answer = self.api.request("POST", workload.path, workload.body)
        if workload.refused:
            assert code == 422, answer
            assert workload.refused in answer["message"], answer
            return
        assert code == 201, answer
        self._uids[workload.name] = answer["metadata"]["uid"]
        self._made.append(f"{workload.path}/{workload.name}")

    def _new_controller(self) -> Controller:
        client = self._client
        time = self._time
        publishers = (
            GrovePublisher(client, time),
            KaiPublisher(client, time, 0.0),
            KueuePublisher(client, time, 0.0),
        )
        reconciler = Reconciler(Wiring(client, publishers, time))
        return controller_of(client, reconciler)


def _counts(entries: Sequence[Mapping[str, Any]] | None) -> dict[str, int]:
    counts = {}
    for entry in entries or ():
        counts[entry["domain"]] = entry["workloads"]
    return counts


def _missed(entries: Sequence[Mapping[str, Any]] | None) -> tuple[str, ...]:
    """The preferred levels that are not available."""
    missed = []
    for entry in entries or ():
        if not entry["available"]:
            missed.append(entry["domain"])
    return tuple(missed)


def _untrue(conditions: Sequence[Mapping[str, str]]) -> dict[str, Verdict]:
    """The conditions that are not True, but for the summary and those that it leaves out.

    The one that cases are about has its exact words always.
    """
    by_type: dict[str, Verdict] = {}
    for condition in conditions:
        kind = condition["type"]
        if kind not in ADVISORY:
            by_type[kind] = (condition["status"], condition["reason"], condition["message"])
    status, reason, message = by_type["TopologyLevelsAvailable"]
    if status == "True":
        assert reason == "AllTopologyLevelsAvailable"
        assert message == LEVELS_AVAILABLE
    ready, _, _ = by_type.pop("Ready")
    untrue = {}
    for kind, verdict in by_type.items():
        if verdict[0] != "True":
            untrue[kind] = verdict
    assert (ready == "True") == (not untrue)
    return untrue
