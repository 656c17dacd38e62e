"""Agents whose pods are not Ready, while the labels of their nodes are still there."""

from typing import Any

import msgspec
import pytest
from tests.support.api import MERGE, NODES, ApiUnderTest, Clients, create_namespace, node
from tests.support.controller import condition, controller_of, make_topology, share_crd
from tests.support.runtime import ManualRuntime
from toposcope.api.conditions import Condition, ready
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.agent_watch import AgentWatch
from toposcope.controller.assess.agents import AgentPodsSeen, AgentReports, UnreadyAgent, agents_condition
from toposcope.controller.informer import InformerFactory
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.kube.agent_pod import AgentPod, read
from toposcope.kube.errors import ApiError, UnreachableError

PODS = f"/api/v1/namespaces/{HOME_NAMESPACE}/pods"
AGENT = {"app.kubernetes.io/name": "toposcope", "app.kubernetes.io/component": "agent"}
START = "1970-01-01T00:00:00Z"
"""When the clock of a `ManualRuntime` stands at 0."""
SHOW = "see `kubectl get pods -A -o wide -l app.kubernetes.io/component=agent`"
STALE = "so nothing checks that the labels are still true"

pytestmark = pytest.mark.regression


def pod_status(ready: str, waiting: str = "", at: str = START) -> dict[str, Any]:
    """The status of a pod of one container, as the kubelet writes it."""
    state: dict[str, Any] = {"running": {"startedAt": START}}
    if waiting:
        state = {"waiting": {"reason": waiting}}
    container = {
        "name": "agent",
        "image": "toposcope",
        "imageID": "",
        "restartCount": 3,
        "ready": ready == "True" and not waiting,
        "state": state,
    }
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at}],
        "containerStatuses": [container],
    }


def pod(name: str, status: dict[str, Any]) -> AgentPod:
    """What is read of an agent's pod on the node `gpu-1`."""
    document = {
        "metadata": {"name": name, "resourceVersion": "7", "creationTimestamp": START},
        "spec": {"nodeName": "gpu-1"},
        "status": status,
    }
    key, version, state = read(msgspec.json.encode(document))
    assert (key, version) == (name, "7")
    return state


CRASHING = pod_status("False", "CrashLoopBackOff")


class Followed:
    """An `AgentWatch` whose pods and time a test sets; `wakes` counts the passes that it asks for."""

    def __init__(self, clients: Clients) -> None:
        self.runtime = ManualRuntime()
        self.wakes = 0
        informers = InformerFactory(clients(), self.runtime.event(), runtime=self.runtime)
        self.watch = AgentWatch(informers, self._wake)
        self.watch.replace({})
        self.wakes = 0

    def _wake(self) -> None:
        self.wakes += 1

    def sees(self, **status: dict[str, Any]) -> None:
        """The watch delivers these pods' states."""
        for name, written in status.items():
            self.watch.put(name, pod(name, written))


@pytest.fixture
def followed(clients: Clients) -> Followed:
    return Followed(clients)


def test_crash_loop_is_reported_at_once(followed: Followed) -> None:
    followed.sees(a=CRASHING)
    assert followed.watch.unready() == [UnreadyAgent("gpu-1", "CrashLoopBackOff")]
    assert followed.wakes == 1


def test_agent_beside_a_crashing_container_is_ready(followed: Followed) -> None:
    status = pod_status("False")
    (agent,) = status["containerStatuses"]
    endpoint = {
        "name": "node-endpoint",
        "ready": False,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    status["containerStatuses"] = [{**agent, "ready": True}, endpoint]
    assert pod("a", status).is_ready
    followed.sees(a=status)
    assert followed.watch.unready() == []

    status["containerStatuses"] = [agent, endpoint]
    assert not pod("a", status).is_ready


def test_starting_pod_is_reported_after_a_minute_only(followed: Followed) -> None:
    followed.sees(a=pod_status("False", "ContainerCreating"))
    followed.runtime.seconds = 59
    assert followed.watch.unready() == []
    followed.runtime.seconds = 60
    assert followed.watch.unready() == [UnreadyAgent("gpu-1", "ContainerCreating")]
    assert followed.wakes == 0  # a roll-out asks for no pass for each node


def test_pod_that_runs_and_is_not_ready_is_reported(followed: Followed) -> None:
    running = pod_status("False")
    running["containerStatuses"][0]["ready"] = False
    followed.sees(a=running)
    followed.runtime.seconds = 60
    assert followed.watch.unready() == [UnreadyAgent("gpu-1", "not Ready")]


def test_pod_on_an_unreachable_node_is_reported(followed: Followed) -> None:
    silent = pod_status("False")
    silent["containerStatuses"][0]["ready"] = True  # the kubelet's last word
    followed.sees(a=silent)
    followed.runtime.seconds = 60
    assert followed.watch.unready() == [UnreadyAgent("gpu-1", "its node does not answer")]


def test_short_life_between_two_crashes_ends_no_report(followed: Followed) -> None:
    followed.sees(a=CRASHING)
    assert followed.watch.unready()
    followed.sees(a=pod_status("True", at="1970-01-01T00:01:40Z"))
    followed.runtime.seconds = 219
    assert followed.watch.unready() == [UnreadyAgent("gpu-1", "restarting")]
    followed.runtime.seconds = 220
    assert followed.watch.unready() == []


def test_replaced_pod_ends_the_report(followed: Followed) -> None:
    followed.sees(a=CRASHING)
    assert followed.watch.unready()
    followed.watch.gone("a")
    followed.sees(b=pod_status("True"))
    assert followed.watch.unready() == []
    assert followed.wakes == 2


def test_pod_that_nobody_schedules_names_its_node(followed: Followed) -> None:
    wanted = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-9"]}]}
    document = {
        "metadata": {"name": "a", "creationTimestamp": START},
        "spec": {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
            }
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }
    name, _, state = read(msgspec.json.encode(document))
    followed.watch.put(name, state)
    followed.runtime.seconds = 60
    assert followed.watch.unready() == [UnreadyAgent("gpu-9", "Unschedulable")]


def test_pods_are_unknown_until_listed_or_refused(clients: Clients) -> None:
    runtime = ManualRuntime()
    watch = AgentWatch(InformerFactory(clients(), runtime.event(), runtime=runtime), lambda: None)
    assert watch.unready() is None
    watch.failing(UnreachableError("connection refused"))
    assert watch.unready() is None
    watch.failing(ApiError(503, "ServiceUnavailable", "starting"))
    assert watch.unready() is None
    watch.failing(ApiError(403, "Forbidden", "an older role"))
    assert watch.unready() == ()


CRASHED = AgentPodsSeen(
    unready=[
        UnreadyAgent("gpu-1", "ImagePullBackOff"),
        UnreadyAgent("gpu-2", "CrashLoopBackOff"),
        UnreadyAgent("gpu-3", "CrashLoopBackOff"),
    ]
)
CRASHED_CONDITION = Condition(
    "AgentsReporting",
    "False",
    "AgentsNotReady",
    f"3 agents are not Ready, {STALE}: gpu-2, gpu-3 (CrashLoopBackOff), gpu-1 (ImagePullBackOff); {SHOW}",
)


def test_condition_names_nodes_by_reason() -> None:
    assert agents_condition(AgentReports(), CRASHED) == CRASHED_CONDITION


def test_condition_of_a_new_leader_stays_until_pods_are_listed() -> None:
    unknown = AgentPodsSeen(unready=None)
    stored = {"type": "AgentsReporting", "status": "False", "reason": "AgentsNotReady", "message": "1 agent is"}
    kept = Condition("AgentsReporting", "False", "AgentsNotReady", "1 agent is")
    assert agents_condition(AgentReports(), unknown, {"conditions": [stored]}) == kept
    assert agents_condition(AgentReports(), unknown).status == "True"


def test_condition_says_why_nodes_have_no_labels() -> None:
    crashing = AgentPodsSeen(unready=[UnreadyAgent("gpu-1", "CrashLoopBackOff")])
    found = agents_condition(AgentReports(silent=["gpu-1"]), crashing)
    assert found.reason == "NodesWithoutLabels"
    assert found.message == (
        "1 node has GPUs but no gpu.topology/gpus label: gpu-1; "
        f"1 agent is not Ready, {STALE}: gpu-1 (CrashLoopBackOff); {SHOW}"
    )


def test_stale_labels_do_not_make_a_topology_unready() -> None:
    assert ready([CRASHED_CONDITION]).status == "True"


@pytest.mark.real_api("service accounts")
def test_controller_reports_a_crashing_agent(api: ApiUnderTest, clients: Clients) -> None:
    share_crd(api)
    create_namespace(api, HOME_NAMESPACE)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.create(f"/api/v1/namespaces/{HOME_NAMESPACE}/serviceaccounts", account)
    api.create(NODES, node("gpu-1", labels={"gpu.topology/gpus": "8"}))
    make_topology(api)
    for name, labels in (("toposcope-agent-x", AGENT), ("other", {})):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": HOME_NAMESPACE, "labels": labels},
            "spec": {"nodeName": "gpu-1", "containers": [{"name": "agent", "image": "toposcope"}]},
        }
        api.create(PODS, body)
        status, _ = api.request("PATCH", f"{PODS}/{name}/status", {"status": CRASHING}, content_type=MERGE)
        assert status == 200
    client = clients()
    controller_of(client, Reconciler(Wiring(client))).once()
    found = condition(api, "AgentsReporting")
    assert (found["status"], found["reason"]) == ("False", "AgentsNotReady")
    assert found["message"] == f"1 agent is not Ready, {STALE}: gpu-1 (CrashLoopBackOff); {SHOW}"
