"""What a soak is made of: the life of the cluster, and the verdict."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tools.bench.churn import JOBSET_CRD, STEPS, Churn, call
from tools.bench.report import Figure
from tools.bench.soak import hourly, kind, verdict
from tools.bench.workspace import MeasurementError
from toposcope.kube.requests import NODES
from toposcope.simulator import manifests
from toposcope.simulator.apiserver import EmbeddedApiServer

HOURS = 24


@pytest.fixture(scope="module")
def lived() -> Iterator[tuple[EmbeddedApiServer, Churn, list[int]]]:
    """A small cluster after an hour, and how many nodes it had after each step."""
    with EmbeddedApiServer(history=100) as server:
        server.load([manifests.cluster_topology_crd(), JOBSET_CRD])
        churn = Churn(server, 100, random.Random(1), beats=1)
        counts = []
        for step in range(STEPS):
            churn.step(0, step)
            counts.append(churn.nodes)
        yield server, churn, counts


def test_as_many_nodes_as_before_after_an_hour(lived: tuple[EmbeddedApiServer, Churn, list[int]]) -> None:
    server, churn, counts = lived
    assert counts[0] == counts[-1] == churn.nodes == 100
    assert min(counts) < 100  # a rack was gone
    assert len(server.store.collection("nodes").objects) == 100


def test_others_than_before(lived: tuple[EmbeddedApiServer, Churn, list[int]]) -> None:
    server, _, _ = lived
    names = {name for _, name in server.store.collection("nodes").objects}
    assert 0 < sum(name.startswith("gpu-new-") for name in names) <= STEPS // 4


def test_workloads_come_and_go(lived: tuple[EmbeddedApiServer, Churn, list[int]]) -> None:
    server, _, _ = lived
    assert len(server.store.collection("jobsets.jobset.x-k8s.io").objects) == 20


def test_what_a_server_refuses_is_no_life(lived: tuple[EmbeddedApiServer, Churn, list[int]]) -> None:
    server, _, _ = lived
    with pytest.raises(MeasurementError, match="POST /api/v1/nodes"):
        call(server, "POST", NODES, {"kind": "Node", "apiVersion": "v1", "metadata": {}})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v1/nodes", "nodes"),
        ("/api/v1/nodes/a", "nodes"),
        ("/apis/gpu.topology/v1alpha1/clustertopologies/cluster/status", "clustertopologies/status"),
        ("/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases/a", "leases"),
        ("/apis/grove.io/v1alpha1", "discovery"),
        ("/apis", "discovery"),
    ],
)
def test_requests_are_counted_by_kind(path: str, name: str) -> None:
    assert kind(path) == name


def test_requests_of_an_hour_are_those_since_the_last() -> None:
    before = Counter({("GET", "/api/v1/nodes/a"): 2})
    after = Counter({("GET", "/api/v1/nodes/a"): 3, ("GET", "/api/v1/nodes/b"): 1, ("PATCH", "/api/v1/nodes/b"): 1})
    assert hourly(before, after) == {"GET nodes": 2.0, "PATCH nodes": 1.0}


def looks(grow: Callable[[dict[str, Any], dict[str, float], int], None]) -> list[Figure]:
    """The verdict on a day with some noise, and with what `grow` makes of each hour."""
    rng = random.Random(5)
    seen, asked = [], []
    for hour in range(HOURS):
        look: dict[str, Any] = {"rss": (40 << 20) + rng.randrange(1 << 18), "files": 14, "threads": 11}
        look |= {"sizes": {"Index._items": 2000 + rng.randrange(3), "Wake._seen": 5}}
        requests = {"GET nodes": 60.0 + rng.randrange(3), "PATCH nodes": 400.0 + rng.randrange(30)}
        grow(look, requests, hour)
        seen.append(look)
        asked.append(requests)
    return list(verdict("controller", seen, asked))


def found(figures: list[Figure]) -> list[str]:
    return [figure.name.split(",")[0].strip() for figure in figures if figure.name.startswith("    ")]


def test_day_without_a_leak_is_clean() -> None:
    figures = looks(lambda _look, _asked, _hour: None)
    judged = [figure for figure in figures if figure.target]
    assert len(judged) == 4
    assert all(figure.target and figure.target.met(figure.sample.value) for figure in judged)


@pytest.mark.parametrize(
    ("grow", "name"),
    [
        (lambda look, _asked, hour: look.update(rss=look["rss"] + hour * (200 << 10)), "rss"),
        (lambda look, _asked, hour: look.update(files=14 + hour // 2), "files"),
        (lambda look, _asked, hour: look.update(threads=11 + hour), "threads"),
        (lambda look, _asked, hour: look["sizes"].update({"Wake._seen": 5 + hour}), "Wake._seen"),
        (lambda _look, asked, hour: asked.update({"GET nodes": asked["GET nodes"] + hour}), "GET nodes"),
        (lambda _look, asked, hour: asked.update({"GET secrets": 2.0 * hour}), "GET secrets"),
    ],
)
def test_planted_leak_is_found_by_its_name(
    grow: Callable[[dict[str, Any], dict[str, float], int], None], name: str
) -> None:
    assert found(looks(grow)) == [name]
