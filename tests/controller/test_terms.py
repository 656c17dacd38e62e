"""Terms of leadership: a follower only looks, a new leader takes nothing back, a lost term leaves no trace."""

import threading
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry
from tests.support import controller
from tests.support.api import NODES, ApiUnderTest, wait_until
from tests.support.cluster import RACK, ZONE, Turns
from tests.support.controller import available
from tests.support.publishing import BINDINGS, Time, install
from toposcope.api.cluster_topology import PATH
from toposcope.controller.fence import Fence, FencedClient
from toposcope.controller.loop import Controller
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.integrations.grove.publisher import GrovePublisher
from toposcope.kube.client import Request
from toposcope.kube.config import load
from toposcope.simulator.apiserver.server import ServerFaults

GRACE = 600.0


class Client(FencedClient):
    """A client that tells `before` of each request when it is about to be sent."""

    before: Callable[[Request], None] = staticmethod(lambda _request: None)

    def _about_to_send(self, request: Request) -> None:
        self.before(request)
        super()._about_to_send(request)


class Replica:
    """A controller in this process. Time and leadership are the test's, and so is when it turns."""

    def __init__(self, api: ApiUnderTest) -> None:
        self.time = Time()
        self.turns = Turns()
        self.registry = CollectorRegistry()
        self.written: list[str] = []
        fence = Fence(self.turns)
        self.client = Client(
            load(str(api.kubeconfig)),
            "test",
            10.0,
            can_write=fence.is_open,
        )
        self.client.before = self._note
        self.controller = Controller(
            self.client,
            self._new_reconciler,
            ControllerMetrics(self.registry),
            options=controller.OPTIONS,
            stop=threading.Event(),
            fence=fence,
        )

    def _note(self, request: Request) -> None:
        if request.method != "GET":
            self.written.append(request.path)

    def look(self) -> None:
        """List everything anew, as watches would have shown it."""
        self.controller.watches.topology_reflector.sync()
        self.controller.watches.node_reflector.sync()
        self.controller.watches.workloads.sync()

    def turn(self, after: float = 0.0) -> float:
        """See what has changed and act on it."""
        self.time.seconds += after
        self.look()
        return self.controller._turn()

    def _new_reconciler(self) -> Reconciler:
        publishers = [GrovePublisher(self.client)]
        return Reconciler(Wiring(self.client, publishers, self.time))

    def passes(self) -> dict[str, float | None]:
        """How many there were with each outcome."""
        counts = {}
        for outcome in ("ok", "failed", "abandoned"):
            labels = {"outcome": outcome}
            counts[outcome] = self.registry.get_sample_value("toposcope_reconciles_total", labels)
        return counts

    def shown_gpus(self) -> float | None:
        """The GPUs of the topology that its metrics show; None where they show nothing."""
        return self.registry.get_sample_value("toposcope_topology_gpus", {"topology": "cluster"})


@pytest.fixture
def cluster(api: ApiUnderTest) -> ApiUnderTest:
    """Two nodes with racks, and a topology that requires them."""
    controller.share_crd(api)
    for name in ("n1", "n2"):
        controller.make_node(api, name, {ZONE: "z", RACK: f"r-{name}"})
        api.patch(f"{NODES}/{name}", {"spec": {"taints": None}})
    controller.make_topology(api, required=["rack"], gracePeriod=f"{GRACE:.0f}s")
    return api


def label_racks(api: ApiUnderTest, rack: str | None) -> None:
    for name in ("n1", "n2"):
        controller.relabel(api, name, {RACK: rack})


@pytest.fixture
def replicas(cluster: ApiUnderTest) -> Iterator[Callable[[], Replica]]:
    made: list[Replica] = []

    def make() -> Replica:
        replica = Replica(cluster)
        made.append(replica)
        return replica

    yield make
    for replica in made:
        replica.controller.end()
        replica.client.close()


@pytest.fixture
def leader(replicas: Callable[[], Replica]) -> Replica:
    """Leads, and has written what it found."""
    leader = replicas()
    leader.turns.begin()
    leader.turn()
    return leader


@pytest.fixture
def follower(replicas: Callable[[], Replica]) -> Replica:
    return replicas()


def version(api: ApiUnderTest) -> str:
    metadata = api.get(f"{PATH}/cluster")["metadata"]
    return str(metadata["resourceVersion"])


def bound_domains(api: ApiUnderTest) -> list[str]:
    """The levels of the binding."""
    levels = api.get(f"{BINDINGS}/cluster")["spec"]["levels"]
    return [level["domain"] for level in levels]


def test_a_follower_knows_the_cluster_and_writes_nothing(leader: Replica, follower: Replica) -> None:
    assert follower.turn() == 60.0
    assert follower.controller.ready() == ""
    assert follower.controller.healthy() == ""
    assert follower.registry.get_sample_value("toposcope_nodes") == 2
    assert follower.shown_gpus() is None
    assert follower.written == []
    assert follower.passes() == {"ok": 0, "failed": 0, "abandoned": 0}
    assert leader.shown_gpus() == 16
    leader.turns.end()
    leader.turn()
    assert leader.shown_gpus() is None


def test_a_term_that_is_lost_in_the_middle_of_a_pass_ends_the_pass(cluster: ApiUnderTest, follower: Replica) -> None:
    controller.make_topology(cluster, "other", required=["rack"])
    follower.turns.begin()
    sent: list[str] = []

    def lose(request: Request) -> None:
        if request.method != "GET":
            sent.append(request.path)
            if len(sent) == 2:
                follower.turns.end()

    follower.client.before = lose
    follower.turn()
    first, second = sent
    assert available(cluster, first.split("/")[-2]) != {}
    assert available(cluster, second.split("/")[-2]) == {}
    assert follower.passes() == {"ok": 0, "failed": 0, "abandoned": 1}
    follower.client.before = follower._note
    follower.turn()
    assert follower.written == []


def test_a_term_that_comes_back_in_the_middle_of_a_pass_saves_nothing(cluster: ApiUnderTest, follower: Replica) -> None:
    follower.turns.begin()

    def lapse(request: Request) -> None:
        if request.method != "GET":
            follower.turns.end()
            follower.turns.begin()

    follower.client.before = lapse
    follower.turn()
    assert available(cluster) == {}
    assert follower.passes()["abandoned"] == 1
    follower.client.before = follower._note
    follower.turn()
    assert available(cluster)["status"] == "True"


def test_an_absence_counts_from_the_begin_of_a_term(cluster: ApiUnderTest, leader: Replica, follower: Replica) -> None:
    install(cluster, "grove-clustertopologybindings-alpha10", "kai-topologies-v0.17")
    leader.turn()
    label_racks(cluster, None)
    leader.turn()
    leader.turn(after=GRACE - 1)
    leader.turns.end()
    follower.turns.begin()
    follower.turn()
    follower.turn(after=GRACE)
    assert available(cluster)["status"] == "True"
    assert "rack" in bound_domains(cluster)
    follower.turns.end()
    follower.turns.begin()
    follower.turn(after=GRACE)
    assert available(cluster)["status"] == "True", "nor does the time between two terms of one process"
    follower.turn(after=GRACE + 1)
    assert available(cluster)["status"] == "False"
    assert "rack" not in bound_domains(cluster)


def test_a_verdict_stands_until_there_is_evidence(cluster: ApiUnderTest, leader: Replica, follower: Replica) -> None:
    label_racks(cluster, None)
    leader.turn()
    leader.turn(after=GRACE + 1)
    before = available(cluster)
    assert before["status"] == "False"
    leader.turns.end()
    follower.turns.begin()
    follower.turn()
    follower.turn(after=1)
    assert available(cluster) == before
    for path in follower.written:
        assert "events" not in path, "one Event is enough"
    label_racks(cluster, "r")
    follower.turn()
    assert available(cluster)["status"] == "True"


def test_a_new_leader_waits_to_see_the_last_writes(cluster: ApiUnderTest, leader: Replica, follower: Replica) -> None:
    follower.look()  # rack is available, says the status
    label_racks(cluster, None)
    leader.turn()
    leader.turn(after=GRACE + 1)
    leader.turns.end()
    last = version(cluster)
    follower.turns.begin()
    follower.controller.watches.node_reflector.sync()  # the watch of topologies lags
    assert follower.controller._turn() < 1.0
    assert version(cluster) == last
    assert follower.written == []
    follower.turn()
    assert available(cluster)["status"] == "False"


def test_status_when_a_restore_takes_it_back_then_is_written_again(cluster: ApiUnderTest, leader: Replica) -> None:
    leader.look()
    before = cluster.get(f"{PATH}/cluster")["status"]
    controller.make_node(cluster, "n3", {ZONE: "z", RACK: "r-n3"})
    leader.turn()
    assert controller.status_of(cluster)["nodes"] == 3

    cluster.patch(f"{PATH}/cluster/status", {"status": before})
    leader.turn()
    assert controller.status_of(cluster)["nodes"] == 2, "as a watch that lags would show it"
    leader.turn(after=61)
    assert controller.status_of(cluster)["nodes"] == 3


def test_a_key_that_a_spec_names_anew_is_judged_when_nodes_have_been_read(
    cluster: ApiUnderTest, leader: Replica
) -> None:
    for name in ("n1", "n2"):
        controller.relabel(cluster, name, {"example.com/row": "a"})
    row = {"domain": "row", "key": "example.com/row"}
    controller.edit_topology(cluster, levels=[row], required=None)
    leader.controller.watches.topology_reflector.sync()
    last = version(cluster)
    assert leader.controller._look() < 10.0
    assert version(cluster) == last
    assert "nodes have not been listed yet" in leader.controller.ready()
    reflector = leader.controller.watches.node_reflector
    reflector._has_to_relist = False  # as its thread would, which does not run here
    reflector.sync()
    assert leader.controller._look() == 60.0
    (level,) = controller.status_of(cluster)["levels"]
    assert level["domain"] == "row"
    assert level["nodes"] == 2
    assert level["missing"] == 0


@pytest.mark.embedded_api("fails on demand")
def test_a_server_that_does_not_answer_loses_no_term(
    cluster: ApiUnderTest, follower: Replica, faults: ServerFaults
) -> None:
    follower.look()
    follower.turns.begin()
    faults.reject(503, times=7, applies=lambda request: request.path == PATH)
    longest = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
    for most in longest:
        pause = follower.controller._turn()
        assert most / 2 <= pause <= most
    assert follower.passes() == {"ok": 0, "failed": 7, "abandoned": 0}
    assert follower.turn() == 60.0
    assert follower.passes()["ok"] == 1
    faults.reject(429, retry_after=7, applies=lambda request: request.path == f"{PATH}/cluster/status")
    label_racks(cluster, "other")
    assert follower.turn() == 7.0


def test_the_loop_takes_over_and_lets_go_when_it_is_woken(cluster: ApiUnderTest, follower: Replica) -> None:
    with controller.running(follower.controller):
        wait_until(lambda: follower.controller.ready() == "", "the follower has seen the cluster")
        assert available(cluster) == {}
        follower.turns.begin()
        follower.controller.wake()
        wait_until(lambda: available(cluster).get("status") == "True", "it leads")
        follower.turns.end()
        follower.controller.wake()
        wait_until(lambda: follower.shown_gpus() is None, "it shows nothing any more")


def test_without_the_crd_the_loop_does_not_look_dead(api: ApiUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    api.remove_crd("clustertopologies.gpu.topology")
    wait_until(lambda: api.request("GET", PATH)[0] == 404, "ClusterTopologies are not served")
    replica = Replica(api)
    with controller.running(replica.controller):
        wait_until(lambda: "have not been listed yet: 404" in replica.controller.ready(), "it says what is missing")
        passed = replica.controller._last_pass
        wait_until(lambda: bool(api.get("/version")) and replica.controller._last_pass > passed, "a pass")
        monkeypatch.setattr("toposcope.controller.loop._STUCK_SECONDS", 0.0)
        assert "has been stuck for" in replica.controller.healthy()
    replica.client.close()
