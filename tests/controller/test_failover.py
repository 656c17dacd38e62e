"""Two controllers as programs on one API server: one is asked to end.

That one is killed or stopped in the middle of a pass: tests/e2e/test_life.py, and seeds of tests/fixtures/seeds.yaml.
"""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from tests.support.api import CRDS, NODES, ApiUnderTest, node, wait_until
from tests.support.controller import make_topology, share_crd, status_of
from tests.support.paths import ROOT
from tests.support.proxy import RecordingProxy
from tests.support.upstream_crds import stand_in
from tools.apiserver.client import HttpClient

pytestmark = pytest.mark.slow

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = f"{LEASES}/toposcope-controller"
OLDER_GROVE = stand_in("grove.io", "v1alpha1", "ClusterTopology", "clustertopologies", is_namespaced=False)


class Replica:
    """One controller program, with a proxy that sees all its requests; a context manager."""

    def __init__(self, api: ApiUnderTest, folder: Path) -> None:
        self.proxy = RecordingProxy(api)
        self._folder = folder
        with socket.create_server(("", 0)) as free:
            _, self._port = free.getsockname()
        self._metrics = HttpClient(f"http://127.0.0.1:{self._port}", None)

    def __enter__(self) -> Self:
        self.proxy.__enter__()
        self._folder.mkdir()
        kubeconfig = self._folder / "kubeconfig"
        self.proxy.write_kubeconfig(kubeconfig)
        command = [
            *(sys.executable, "-W", "error", "-m", "toposcope.controller"),
            *("--kubeconfig", str(kubeconfig)),
            *("--debounce", "0"),
            *("--metrics-port", str(self._port)),
            "--leader-elect",
            *("--lease-namespace", "default"),
            *("--lease-duration", "15"),
        ]
        with (self._folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.wait()
        self.proxy.__exit__()

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8")

    def shuts_down(self, api: ApiUnderTest, number: signal.Signals) -> bool:
        """Whether it logged that signal; asks something else too, so that waiting takes no CPU time from it."""
        api.get("/version")
        return f"shutting down after {number.name}" in self.log()

    def metrics(self) -> str:
        """All series; empty as long as nothing is served."""
        with contextlib.suppress(OSError):
            return str(self._metrics.request("GET", "/metrics").body)
        return ""

    def is_well(self) -> bool:
        """Ready and alive."""
        return self._answers("/readyz") and self._answers("/healthz")

    def _answers(self, path: str) -> bool:
        with contextlib.suppress(OSError):
            return self._metrics.request("GET", path).code == 200
        return False

    def leads(self) -> bool:
        return "toposcope_leader 1.0" in self.metrics()

    def sees(self, nodes: int) -> bool:
        return f"toposcope_nodes {float(nodes)}" in self.metrics()


def add_node(api: ApiUnderTest, name: str) -> None:
    labels = {
        "topology.kubernetes.io/zone": "z",
        "kubernetes.io/hostname": name,
        "gpu.topology/gpus": "8",
    }
    api.create(NODES, node(name, labels=labels))


def counted(api: ApiUnderTest) -> int:
    return int(status_of(api).get("nodes", 0))


def holder(api: ApiUnderTest) -> dict[str, Any]:
    return api.get(LEASE)["spec"]


@pytest.fixture
def cluster(api: ApiUnderTest) -> ApiUnderTest:
    """A node, a ClusterTopology, an older Grove, and a Lease that was given back: a new one would be waited for.

    Where an older Grove is served, every pass asks whether the binding's CRD is there: a request to be held up.
    """
    share_crd(api)
    make_topology(api)
    api.install_crd(OLDER_GROVE)
    add_node(api, "n1")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "toposcope-controller"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    }
    api.create(LEASES, lease)
    return api


@pytest.fixture
def pair(cluster: ApiUnderTest, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Leader and follower, both of which have seen the cluster."""
    with Replica(cluster, tmp_path / "a") as a, Replica(cluster, tmp_path / "b") as b:
        wait_until(lambda: counted(cluster) == 1, "one of them writes")
        for replica in (a, b):
            wait_until(replica.is_well, "it is well")
            wait_until(lambda replica=replica: replica.sees(1), "it follows the cluster")  # type: ignore[misc]
        wait_until(lambda: a.leads() != b.leads(), "one leads")
        yield (a, b) if a.leads() else (b, a)


@pytest.fixture
def leader(pair: tuple[Replica, Replica]) -> Replica:
    return pair[0]


@pytest.fixture
def follower(pair: tuple[Replica, Replica]) -> Replica:
    return pair[1]


def changed(api: ApiUnderTest, nodes: int) -> Callable[[], bool]:
    """Add a node; whether a controller has counted it."""
    add_node(api, f"n{nodes}")
    return lambda: counted(api) == nodes


def hold_a_pass(api: ApiUnderTest, leader: Replica) -> int:
    """Add nodes until the leader stands in the middle of a pass that has one to count; how many there are."""
    for nodes in itertools.count(counted(api) + 1):
        leader.proxy.hold("GET", f"{CRDS}/clustertopologybindings.grove.io")
        add_node(api, f"n{nodes}")
        leader.proxy.wait_until_held()
        if leader.sees(nodes):
            return nodes
        leader.proxy.release()  # a pass that began before
    raise AssertionError


def test_a_leader_that_ends_gives_its_lease_back_last(
    cluster: ApiUnderTest, leader: Replica, follower: Replica
) -> None:
    follower.send_signal(signal.SIGSTOP)
    nodes = hold_a_pass(cluster, leader)
    leader.send_signal(signal.SIGTERM)
    wait_until(lambda: leader.shuts_down(cluster, signal.SIGTERM), "the leader shuts down")
    assert holder(cluster)["holderIdentity"]
    leader.proxy.release()
    assert leader.process.wait(timeout=30) == 0
    assert counted(cluster) == nodes, "the pass in hand is finished first"
    assert leader.proxy.writes[-1] == ("PUT", LEASE)
    # The next one that looks takes it at once.
    given_back = holder(cluster)
    assert given_back["holderIdentity"] == ""
    assert given_back["leaseDurationSeconds"] == 1
    follower.send_signal(signal.SIGCONT)
    wait_until(changed(cluster, nodes + 1), "the other took over")
    assert follower.leads()
    assert "Traceback" not in leader.log()


def test_a_second_signal_ends_the_program_within_the_pass_in_hand(leader: Replica, cluster: ApiUnderTest) -> None:
    hold_a_pass(cluster, leader)
    leader.send_signal(signal.SIGTERM)
    wait_until(lambda: leader.shuts_down(cluster, signal.SIGTERM), "the leader shuts down")
    leader.send_signal(signal.SIGTERM)
    assert leader.process.wait(timeout=30) == 128 + signal.SIGTERM
