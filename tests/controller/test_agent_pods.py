"""What `AgentsReporting` says where the agents' DaemonSet cannot create pods."""

from collections.abc import Sequence

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
        if request.path.startswith((DAEMON_SETS, EVENTS)):
            self.reads += 1
        if request.path.startswith(tuple(self.refused)):
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
    silent = node("silent", labels={"nvidia.com/gpu.present": "true"})
    api.create(NODES, silent)
    make_topology(api)
    return controller_of(client, Reconciler(Wiring(client, runtime=time)))


def install(api: ApiUnderTest, current: int) -> str:
    """The agents' DaemonSet, which should run on two nodes; its uid."""
    labels = {"app": "agent"}
    container = {"name": "agent", "image": "none"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container]},
    }
    spec = {
        "selector": {"matchLabels": labels},
        "template": template,
    }
    ours = {
        "app.kubernetes.io/name": "toposcope",
        "app.kubernetes.io/component": "agent",
    }
    metadata = {"name": "east-toposcope-agent", "labels": ours}  # as an overlay with namePrefix names it
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": spec,
    }
    uid: str = api.create(DAEMON_SETS, body)["metadata"]["uid"]
    counts = {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": current,
        "numberReady": 0,
        "numberMisscheduled": 0,
    }
    path = f"{DAEMON_SETS}/east-toposcope-agent/status"
    status, _ = api.request("PATCH", path, {"status": counts}, content_type=MERGE)
    assert status == 200
    return uid


def report(
    api: ApiUnderTest,
    name: str,
    about: str,
    message: str,
    *,
    reason: str = "FailedCreate",
    hour: int = 1,
) -> None:
    """Make an Event about a DaemonSet."""
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": HOME_NAMESPACE,
        },
        "involvedObject": {
            "kind": "DaemonSet",
            "namespace": HOME_NAMESPACE,
            "name": "toposcope-agent",
            "uid": about,
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-01-01T{hour:02}:00:00Z",
    }
    api.create(EVENTS, event)


def report_missing(api: ApiUnderTest, uid: str) -> None:
    """That pods are refused for a RuntimeClass that does not exist."""
    report(api, "a.1", uid, FORBIDDEN.format("") + MISSING)


def said(api: ApiUnderTest) -> tuple[str, str]:
    found = condition(api, "AgentsReporting")
    assert found["status"] == "False"
    return found["message"], found["reason"]


@pytest.mark.regression
def test_a_runtime_class_that_does_not_exist_is_named(api: ApiUnderTest, controller: Controller) -> None:
    uid = install(api, 0)
    over_quota = FORBIDDEN.format("") + "exceeded quota: gpu"
    missing_class = FORBIDDEN.format("x7k2p") + MISSING
    of_earlier_one = FORBIDDEN.format("") + "what was wrong then"
    report(api, "a.1", uid, over_quota)
    report(api, "a.2", uid, missing_class, hour=2)
    report(
        api,
        "a.3",
        uid,
        "Created pod: toposcope-agent-x7k2p",
        reason="SuccessfulCreate",
        hour=3,
    )
    report(api, "a.4", "of-an-earlier-one", of_earlier_one, hour=4)
    controller.once()
    message, reason = said(api)
    assert message == f"{SILENT}the agent's DaemonSet cannot create pods: {MISSING}"
    assert reason == "AgentPodsNotCreated"


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
    uid = install(api, 1)
    report_missing(api, uid)
    client.refused = refused
    controller.once()
    text, reason = said(api)
    assert text.startswith(SILENT + message)
    assert reason == "NodesWithoutLabels"


def test_without_a_daemon_set_or_with_all_pods_it_asks(api: ApiUnderTest, controller: Controller, time: Time) -> None:
    controller.once()
    assert said(api) == UNKNOWN
    uid = install(api, 2)
    report_missing(api, uid)  # and then it could
    time.seconds += 60
    controller.once()
    assert said(api) == UNKNOWN


@pytest.mark.regression
def test_labels_that_former_agents_left_do_not_hide_it(api: ApiUnderTest, controller: Controller, time: Time) -> None:
    api.request("DELETE", f"{NODES}/silent")
    labelled = node("labelled", labels={"gpu.topology/gpus": "8"})
    api.create(NODES, labelled)
    uid = install(api, 1)
    controller.once()  # a roll-out also has fewer pods for a moment
    assert condition(api, "AgentsReporting")["status"] == "True"
    report_missing(api, uid)
    time.seconds += 15
    controller.once()
    message, reason = said(api)
    assert message == f"labels may be old; the agent's DaemonSet cannot create pods: {MISSING}"
    assert reason == "AgentPodsNotCreated"


def test_it_reads_rarely(api: ApiUnderTest, client: Confined, controller: Controller, time: Time) -> None:
    install(api, 0)
    for seconds, reads in ((0, 2), (1, 2), (13, 2), (1, 4)):
        time.seconds += seconds
        controller.once()
        assert client.reads == reads
    api.request("DELETE", f"{NODES}/silent")
    time.seconds += 60
    controller.once()
    assert condition(api, "AgentsReporting")["status"] == "True"
    assert client.reads == 6
