"""What `AgentsReporting` says where the agents' DaemonSet cannot create pods."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.api import MERGE, NODES, ApiUnderTest, Clients, create_namespace, node
from tests.support.controller import condition, controller_of, make_topology, share_crd
from tests.support.publishing import Time
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.loop import Controller
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError

pytestmark = pytest.mark.real_api("DaemonSets")

DAEMON_SETS = f"/apis/apps/v1/namespaces/{HOME_NAMESPACE}/daemonsets"
EVENTS = f"/api/v1/namespaces/{HOME_NAMESPACE}/events"
SILENT = "1 node has GPUs but no gpu.topology/gpus label: silent; "
UNKNOWN = (SILENT + "is the agent's DaemonSet running there?", "NodesWithoutLabels")
MISSING = 'pod rejected: RuntimeClass "nvidia" not found'
FORBIDDEN = 'Error creating: pods "toposcope-agent-{}" is forbidden: '


class Confined(ApiClient):
    """A client that is refused what it reads from some paths; `reads` are those of the agents."""

    refused: Sequence[str] = ()
    reads = 0

    def _about_to_send(self, request: Request) -> None:
        self.reads += request.path.startswith((DAEMON_SETS, EVENTS))
        if any(request.path.startswith(path) for path in self.refused):
            raise ApiError(403, "Forbidden", "no right")


@pytest.fixture
def client(clients: Clients) -> Confined:
    client = clients()
    client.__class__ = Confined
    assert isinstance(client, Confined)
    return client


@pytest.fixture
def controller(api: ApiUnderTest, client: Confined, time: Time) -> Controller:
    share_crd(api)
    create_namespace(api, HOME_NAMESPACE)
    api.create(NODES, node("silent", labels={"nvidia.com/gpu.present": "true"}))
    make_topology(api)
    return controller_of(client, Reconciler(Wiring(client, runtime=time)))


def install(api: ApiUnderTest, current: int) -> str:
    """The agents' DaemonSet, which should run on two nodes; its uid."""
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "agent", "image": "none"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    ours = {"app.kubernetes.io/name": "toposcope", "app.kubernetes.io/component": "agent"}
    metadata = {"name": "east-toposcope-agent", "labels": ours}  # as an overlay with namePrefix names it
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}
    uid: str = api.create(DAEMON_SETS, body)["metadata"]["uid"]
    counts = {"desiredNumberScheduled": 2, "currentNumberScheduled": current, "numberReady": 0, "numberMisscheduled": 0}
    path = f"{DAEMON_SETS}/east-toposcope-agent/status"
    assert api.request("PATCH", path, {"status": counts}, content_type=MERGE)[0] == 200
    return uid


def report(api: ApiUnderTest, name: str, about: str, message: str, reason: str = "FailedCreate", hour: int = 1) -> None:
    metadata = {"name": name, "namespace": HOME_NAMESPACE}
    daemon_set = {"kind": "DaemonSet", "namespace": HOME_NAMESPACE, "name": "toposcope-agent", "uid": about}
    last = {"lastTimestamp": f"2026-01-01T{hour:02}:00:00Z", "type": "Warning"}
    event: dict[str, Any] = {"metadata": metadata, "involvedObject": daemon_set, "reason": reason, "message": message}
    api.create(EVENTS, {"apiVersion": "v1", "kind": "Event"} | event | last)


def said(api: ApiUnderTest) -> tuple[str, str]:
    found = condition(api, "AgentsReporting")
    assert found["status"] == "False"
    return found["message"], found["reason"]


@pytest.mark.regression
def test_a_runtime_class_that_does_not_exist_is_named(api: ApiUnderTest, controller: Controller) -> None:
    uid = install(api, 0)
    report(api, "a.1", uid, FORBIDDEN.format("") + "exceeded quota: gpu")
    report(api, "a.2", uid, FORBIDDEN.format("x7k2p") + MISSING, hour=2)
    report(api, "a.3", uid, "Created pod: toposcope-agent-x7k2p", "SuccessfulCreate", 3)
    report(api, "a.4", "of-an-earlier-one", FORBIDDEN.format("") + "what was wrong then", hour=4)
    controller.once()
    assert said(api) == (f"{SILENT}the agent's DaemonSet cannot create pods: {MISSING}", "AgentPodsNotCreated")


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        pytest.param(
            ["/api/v1/namespaces/toposcope-system/events"],
            "the agent's DaemonSet has pods on 1 of 2 nodes: see `kubectl -n toposcope-system describe",
            id="events",
        ),
        pytest.param(
            ["/apis/apps/v1/namespaces/toposcope-system/daemonsets"],
            "is the agent's DaemonSet running there?",
            id="daemonsets",
        ),
        pytest.param(
            ["/apis/apps/v1/namespaces/toposcope-system/daemonsets", "/api/v1/namespaces/toposcope-system/events"],
            "is the agent's DaemonSet running there?",
            id="both",
        ),
    ],
)
def test_without_a_right_it_says_what_it_knows(
    api: ApiUnderTest, client: Confined, controller: Controller, refused: Sequence[str], message: str
) -> None:
    report(api, "a.1", install(api, 1), FORBIDDEN.format("") + MISSING)
    client.refused = refused
    controller.once()
    text, reason = said(api)
    assert text.startswith(SILENT + message)
    assert reason == "NodesWithoutLabels"


def test_without_a_daemon_set_or_with_all_pods_it_asks(api: ApiUnderTest, controller: Controller, time: Time) -> None:
    controller.once()
    assert said(api) == UNKNOWN
    report(api, "a.1", install(api, 2), FORBIDDEN.format("") + MISSING)  # and then it could
    time.seconds += 60
    controller.once()
    assert said(api) == UNKNOWN


@pytest.mark.regression
def test_labels_that_former_agents_left_do_not_hide_it(api: ApiUnderTest, controller: Controller, time: Time) -> None:
    api.request("DELETE", f"{NODES}/silent")
    api.create(NODES, node("labelled", labels={"gpu.topology/gpus": "8"}))
    uid = install(api, 1)
    controller.once()  # a roll-out also has fewer pods for a moment
    assert condition(api, "AgentsReporting")["status"] == "True"
    report(api, "a.1", uid, FORBIDDEN.format("") + MISSING)
    time.seconds += 15
    controller.once()
    assert said(api) == (
        f"labels may be old; the agent's DaemonSet cannot create pods: {MISSING}",
        "AgentPodsNotCreated",
    )


def test_it_reads_rarely(api: ApiUnderTest, client: Confined, controller: Controller, time: Time) -> None:
    install(api, 0)
    for seconds, reads in ((0, 2), (1, 2), (13, 2), (1, 4)):
        time.seconds += seconds
        controller.once()
        assert client.reads == reads
    api.request("DELETE", f"{NODES}/silent")
    time.seconds += 60
    controller.once()
    assert (condition(api, "AgentsReporting")["status"], client.reads) == ("True", 6)
