"""What is held back when leadership ends, and for how long."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import Gauge, generate_latest
from tests.support.api import ApiUnderTest
from tests.support.cluster import Turns
from toposcope.controller.fence import Fence, FencedClient, NoElection, NotLeaderError
from toposcope.controller.metrics import LeaderMetrics, LeaderOnly
from toposcope.kube.client import Observe, Request, unobserved
from toposcope.kube.config import load
from toposcope.kube.requests import get
from toposcope.simulator.apiserver.server import ServerFaults
from toposcope.telemetry.prometheus import new_registry

pytestmark = pytest.mark.embedded_api("counts requests")

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MAKE = Request("POST", LEASES, {}, b'{"metadata":{"name":"x","namespace":"default"}}')
Make = Callable[..., FencedClient]


def test_a_fence_is_open_in_the_term_that_was_entered() -> None:
    turns = Turns()
    fence = Fence(turns)
    assert (fence.enter(), fence.is_open()) == (0, False)
    turns.begin()
    assert not fence.is_open(), "not entered yet"
    assert not Fence(turns).is_open()
    assert (fence.enter(), fence.is_open()) == (1, True)
    turns.end()
    assert (fence.is_open(), Fence(turns).enter()) == (False, 0)
    turns.begin()
    assert not fence.is_open(), "what was decided in the last term may be wrong by now"
    assert (fence.enter(), fence.is_open()) == (2, True)


def test_without_an_election_the_fence_is_open() -> None:
    fence = Fence(NoElection())
    assert (fence.enter(), fence.enter(), fence.is_open()) == (1, 1, True)


@pytest.fixture
def make(api: ApiUnderTest) -> Iterator[Make]:
    with contextlib.ExitStack() as stack:

        def client(can_write: Callable[[], bool], observe: Observe = unobserved) -> FencedClient:
            client = FencedClient(load(str(api.kubeconfig)), "test", 5.0, can_write=can_write, observe=observe)
            stack.callback(client.close)
            return client

        yield client


def test_writes_are_held_back_from_the_moment_leadership_is_not_certain(faults: ServerFaults, make: Make) -> None:
    turns, codes = Turns(is_leading=True), list[int]()
    client = make(turns.can_write, lambda _: codes.append)
    client.call(MAKE)
    assert client._connection
    assert client._connection.timeout == 5, "so that no write arrives when another leads"
    assert client._user_agent.startswith("test/")
    turns.end()
    with pytest.raises(NotLeaderError, match=f"POST {LEASES} is not sent, because this process is not the leader"):
        client.call(MAKE)
    assert client.call(get(f"{LEASES}/x"))["metadata"]["name"] == "x"
    assert (faults.requests["POST", LEASES], codes) == (1, [201, 200])


def test_connecting_takes_time_in_which_leadership_may_end(faults: ServerFaults, make: Make) -> None:
    connected = []

    def can_write() -> bool:
        connected.append(client._connection is not None and client._connection.sock is not None)
        return False

    client = make(can_write)
    with pytest.raises(NotLeaderError):
        client.call(MAKE)
    assert connected == [True], "asked when nothing was left but to send"
    assert faults.requests["POST", LEASES] == 0


def test_a_write_that_is_sent_again_on_a_new_connection_is_checked_again(faults: ServerFaults, make: Make) -> None:
    answers = iter((True, True, False))
    client = make(lambda: next(answers))
    client.call(MAKE)
    assert client._connection
    client._connection.sock.close()  # as if the server had closed it while it was kept
    client._connection.sock = Closed()
    with pytest.raises(NotLeaderError):
        client.call(MAKE)
    assert faults.requests["POST", LEASES] == 1


class Closed:
    """A socket that the other side has closed."""

    def sendall(self, _data: bytes) -> None:
        raise ConnectionResetError

    def close(self) -> None:
        pass


def test_a_follower_shows_nothing_about_topologies() -> None:
    turns = Turns()
    registry, findings = new_registry(), new_registry()
    registry.register(LeaderOnly(findings, turns.can_write))
    metrics = LeaderMetrics(registry, turns.can_write)
    Gauge("nodes", "Nodes.", registry=findings).set(3)
    Gauge("gpus", "GPUs.", ["topology"], registry=findings).labels("cluster").set(24)

    def shown() -> set[str]:
        return {
            line
            for line in generate_latest(registry).decode().splitlines()
            if line[0] != "#" and "confined" not in line
        }

    assert shown() == {"nodes 3.0", "toposcope_leader 0.0", "toposcope_leader_transitions_total 0.0"}
    turns.begin()
    metrics.transitions.inc()
    expected = {'gpus{topology="cluster"} 24.0', "nodes 3.0", "toposcope_leader 1.0"}
    assert shown() == expected | {"toposcope_leader_transitions_total 1.0"}
