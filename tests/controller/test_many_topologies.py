"""More ClusterTopologies than anybody needs: which are kept up to date, in which order, and what the others say."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.api import ApiUnderTest, Clients
from tests.support.cluster import gpu_node
from tests.support.controller import NoWorkloads, condition, make_topology, share_crd, status_of
from tests.support.publishing import Time
from toposcope.api.cluster_topology import PATH, Topology, read
from toposcope.api.label_keys import GPUS
from toposcope.controller import assessor
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.hierarchy.node import NodeFacts
from toposcope.kube.client import ApiClient, Request

MOST = 3
SLOW = 1.5
"""Seconds that each write takes."""
NAMES = [f"t{i}" for i in range(6)]
OTHER_RACK = "cloud.provider.com/topology-rack"


class Slow(ApiClient):
    """A client on whose clock each status that it writes takes a while; `written` are the topologies."""

    time: Time
    written: list[str]

    def _about_to_send(self, request: Request) -> None:
        if request.path.endswith("/status"):
            self.time.seconds += SLOW
            self.written.append(request.path.split("/")[-2])


@pytest.fixture
def client(clients: Clients, time: Time) -> Slow:
    client = clients()
    client.__class__ = Slow
    assert isinstance(client, Slow)
    client.time = time
    client.written = []
    return client


@pytest.fixture
def reconciler(client: Slow, time: Time) -> Reconciler:
    return Reconciler(Wiring(client, runtime=time))


def topologies(api: ApiUnderTest) -> list[Topology]:
    """The higher its number, the older it is: t5 first."""
    found = []
    for document in api.get(PATH)["items"]:
        topology = read(document)
        second = 9 - int(topology.name[1:])
        found.append(replace(topology, created=f"2026-01-01T00:00:{second:02}Z"))
    return found


def summaries(api: ApiUnderTest) -> list[tuple[str, str]]:
    """Status and reason of Ready of each topology that is there."""
    verdicts = []
    for name in NAMES:
        status, _ = api.request("GET", f"{PATH}/{name}")
        if status == 200:
            ready = condition(api, "Ready", name)
            verdicts.append((ready["status"], ready["reason"]))
    return verdicts


def statuses_by_type(status: dict[str, Any]) -> dict[str, str]:
    """The status of each condition."""
    statuses = {}
    for entry in status["conditions"]:
        statuses[entry["type"]] = entry["status"]
    return statuses


@pytest.mark.regression
def test_oldest_topologies_are_kept_and_the_others_say_why_not(
    api: ApiUnderTest, reconciler: Reconciler, client: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_crd(api)
    for name in NAMES:
        make_topology(api, name)
    nodes = [gpu_node("n1")]
    kept = ("True", "NothingServed")
    out = ("False", "TooManyTopologies")

    def reconcile() -> None:
        assert reconciler.reconcile(topologies(api), nodes, NoWorkloads())

    reconcile()
    assert summaries(api) == [kept] * 6
    monkeypatch.setattr(assessor, "MOST_TOPOLOGIES", MOST)
    before = status_of(api, "t0")
    reconcile()
    assert summaries(api) == [out] * 3 + [kept] * 3
    assert sorted(reconciler.reports) == ["t3", "t4", "t5"]
    assert reconciler.left_out == 3
    after = status_of(api, "t0")
    assert {**after, "conditions": ()} == {**before, "conditions": ()}
    expected = dict.fromkeys(statuses_by_type(before), "Unknown")
    assert statuses_by_type(after) == {**expected, "Ready": "False"}
    ready = condition(api, "Ready", "t0")
    assert "only the 3 oldest ClusterTopologies" in ready["message"]
    client.written.clear()
    reconcile()
    assert client.written == []
    api.request("DELETE", f"{PATH}/t5")
    reconcile()
    assert summaries(api) == [out] * 2 + [kept] * 3


def nodes_of(racks: Sequence[str | None], gpus: str) -> list[NodeFacts]:
    """A node for each topology, with its rack."""
    nodes = []
    for i, rack in enumerate(racks):
        labels = {
            OTHER_RACK: rack,
            "rack": None,
            GPUS: gpus,
        }
        nodes.append(gpu_node(f"n{i}", labels))
    return nodes


ALL_WITH_RACK = ("r", "r", "r", "r", "r", "r")
T2_WITHOUT_RACK = ("r", "r", None, "r", "r", "r")
T0_TOO = (None, "r", None, "r", "r", "r")


@pytest.mark.regression
def test_a_lost_level_comes_first_and_news_end_a_pass(api: ApiUnderTest, reconciler: Reconciler, client: Slow) -> None:
    """No topology waits for ever, though each pass is cut short."""
    share_crd(api)
    for i, name in enumerate(NAMES):
        selector = {"matchLabels": {"kubernetes.io/hostname": f"n{i}"}}
        make_topology(
            api,
            name,
            nodeSelector=selector,
            required=["rack"],
            gracePeriod="0s",
        )

    def look(racks: Sequence[str | None], gpus: str, *, news: bool) -> tuple[bool, list[str]]:
        client.written.clear()
        nodes = nodes_of(racks, gpus)
        done = reconciler.reconcile(topologies(api), nodes, NoWorkloads(), lambda: news)
        return done, list(client.written)

    assert look(ALL_WITH_RACK, "1", news=False) == (True, NAMES[::-1])
    assert look(T2_WITHOUT_RACK, "2", news=True) == (False, ["t2", "t5"])
    available = condition(api, "TopologyLevelsAvailable", "t2")
    assert available["status"] == "False"
    assert look(T2_WITHOUT_RACK, "3", news=True) == (False, ["t4", "t3"])
    assert look(T0_TOO, "4", news=True) == (False, ["t0", "t1"])
    assert look(T0_TOO, "4", news=False) == (True, ["t5", "t2", "t4", "t3"])


@pytest.mark.regression
def test_hints_are_logged_once_for_all(
    api: ApiUnderTest, reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    share_crd(api)
    for name in NAMES:
        make_topology(api, name)
    near_miss = gpu_node("n1", {"kubernetes.io/rack": "r"})
    reconciler.reconcile(topologies(api), [near_miss], NoWorkloads())
    assert caplog.text.count("kubernetes.io/rack is on 1 of 1 node and is not a level") == 1
    for name in NAMES:
        assert status_of(api, name)["hints"]
