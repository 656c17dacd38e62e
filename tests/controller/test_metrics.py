"""What Prometheus reads from a controller: its topologies, requests and watches, and how soon it reacts."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.support.cluster import START, fabric, gpu_node, topology
from tests.support.publishing import Time
from toposcope import __version__
from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.assess.rails import Rails
from toposcope.controller.memory import Memory
from toposcope.controller.metrics import ControllerMetrics, Report, RequestMetrics, WatchMetrics, report
from toposcope.controller.status import conditions_of
from toposcope.controller.trigger import Trigger
from toposcope.hardware.rails import Miscabled
from toposcope.hierarchy.coverage import level_sizes
from toposcope.hierarchy.node import NodeFacts
from toposcope.integrations.framework.published import Published
from toposcope.kube.client import Request
from toposcope.kube.requests import apply

IN_SYNC = Published("grove.io/v1alpha1", "ClusterTopologyBinding", "cluster")
CONFLICT = Published("kai.scheduler/v1alpha1", "Topology", "cluster", "Conflict", "somebody else's")
DGD = "/apis/nvidia.com/{}/dynamographdeployments"


class Scraped:
    """A controller's metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = ControllerMetrics(self.registry)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"toposcope_{name}", labels)

    def level(self, name: str, domain: str) -> float | None:
        return self.value(f"level_{name}", topology="cluster", domain=domain)

    def labels(self) -> set[str]:
        """Every label value there is."""
        return {text for f in self.registry.collect() for sample in f.samples for text in sample.labels.values()}


def reported(nodes: Sequence[NodeFacts], published: Sequence[Published] = (), **spec: Any) -> Report:
    asked = topology(**spec)
    found = assess(asked, Evidence(nodes, required=["block", "row"]), Memory())
    conditions = conditions_of(asked, found, published, anything_served=True)
    sizes = level_sizes(found.effective.levels, found.selected)
    return report(found, conditions, published, {"rack": 0, "block": 3, "row": 1}, sizes)


def racks(count: int, nodes: int = 4) -> list[NodeFacts]:
    """In the first one node is degraded, in the second two, and so on."""
    return [
        gpu_node(f"r{rack}-n{i}", {"rack": f"r{rack}"}, state="degraded" if i <= rack else "ok")
        for rack in range(count)
        for i in range(nodes)
    ]


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_sizes_and_coverage_of_each_level(scraped: Scraped) -> None:
    nodes = [*racks(3), gpu_node("bare", {"rack": None}), gpu_node("r0-n9", {"rack": "r0"})]
    levels = [{"domain": "block", "key": "cloud.google.com/gce-topology-block"}]
    levels += [{"domain": "rack", "key": "cloud.google.com/gce-topology-subblock"}]
    scraped.metrics.show({"cluster": reported(nodes, levels=levels)})
    names = ("domains", "nodes", "nodes_missing", "gpus", "largest_domain_gpus")
    assert [scraped.level(name, "rack") for name in names] == [3, 13, 1, 104, 40]
    assert scraped.level("coverage_ratio", "rack") == pytest.approx(13 / 14)
    assert scraped.value("topology_gpus", topology="cluster") == 112
    assert scraped.value("topology_nodes", topology="cluster") == 14


def test_what_is_asked_for_and_what_is_there(scraped: Scraped) -> None:
    idle = [gpu_node(f"n{i}", {"zone": f"z{i}"}, ready=False) for i in range(2)]
    scraped.metrics.show({"cluster": reported(idle, required=["rack"])})
    levels = {
        domain: tuple(scraped.level(name, domain) for name in ("required", "workloads", "available"))
        for domain in ("zone", "block", "rack", "row")
    }
    assert levels == {"zone": (0, 0, 0), "block": (1, 3, 0), "rack": (1, 0, 0), "row": (1, 1, 0)}
    scraped.metrics.show({"cluster": reported(racks(1))})
    assert scraped.level("available", "block") == 1
    assert scraped.level("available", "row") == 0


def test_degraded_nodes_of_the_worst_domains_and_the_rest_in_one(scraped: Scraped) -> None:
    scraped.metrics.show({"cluster": reported(racks(14, nodes=15))})

    def degraded(value: str, domain: str = "rack") -> float | None:
        return scraped.value("degraded_nodes", topology="cluster", domain=domain, value=value)

    assert [degraded(f"r{i}") for i in (13, 4, 3)] == [14, 5, None]
    assert degraded("_other") == 4 + 3 + 2 + 1
    assert degraded("_other", "host") == sum(range(1, 15))
    assert scraped.value("degraded_domains", topology="cluster", domain="rack") == 14
    assert scraped.value("topology_node_states", topology="cluster", state="degraded") == 105


def test_no_series_names_a_node(scraped: Scraped) -> None:
    nodes = racks(5)
    scraped.metrics.show({"cluster": reported(nodes)})
    assert not scraped.labels() & {node.name for node in nodes}


def test_the_fabric_in_numbers(scraped: Scraped) -> None:
    states = ["ok", "ok", "ok", "ok", "degraded"]
    nodes = [
        gpu_node(f"a{i}", {NVLINK_DOMAIN: fabric(1, clique=i // 4)}, state=state) for i, state in enumerate(states)
    ]
    scraped.metrics.show({"cluster": reported(nodes)})
    assert scraped.value("topology_split_domains", topology="cluster") == 1
    assert scraped.value("topology_small_domains", topology="cluster") == 1


def test_rails_in_numbers(scraped: Scraped) -> None:
    wrong = Miscabled("n3", "uid-n3", "mlx5_2", "x", "p", "u0r2")
    scraped.metrics.show({"cluster": replace(reported(racks(1)), rails=Rails(4, (wrong, wrong)))})
    assert scraped.value("topology_rail_nodes", topology="cluster") == 4
    assert scraped.value("topology_miscabled_rails", topology="cluster") == 2


def test_published_objects_and_conditions_have_one_state_of_several(scraped: Scraped) -> None:
    scraped.metrics.show({"cluster": reported(racks(1), (IN_SYNC, CONFLICT))})

    def state(group: str, kind: str, name: str) -> float | None:
        return scraped.value("published_state", topology="cluster", group=group, kind=kind, state=name)

    assert state("grove.io", "ClusterTopologyBinding", "InSync") == 1
    assert [state("kai.scheduler", "Topology", name) for name in ("InSync", "Conflict", "Rejected")] == [0, 1, 0]
    for kind, status in (("Published", "False"), ("Ready", "False"), ("HierarchyConsistent", "True")):
        for value in ("True", "False", "Unknown"):
            assert scraped.value("condition", topology="cluster", type=kind, status=value) == (value == status)


def test_a_domain_that_a_spec_names_twice_has_one_series(scraped: Scraped) -> None:
    keys = ("cloud.google.com/gce-topology-subblock", "topology.kubernetes.io/zone")
    scraped.metrics.show({"cluster": reported(racks(3), levels=[{"domain": "rack", "key": key} for key in keys])})
    samples = [sample for family in scraped.registry.collect() for sample in family.samples]
    assert len(samples) == len({(sample.name, tuple(sample.labels.items())) for sample in samples})
    assert scraped.level("domains", "rack") == 3


def test_a_topology_that_is_gone_has_no_series(scraped: Scraped) -> None:
    scraped.metrics.show({"cluster": reported(racks(2), (IN_SYNC,)), "other": reported(racks(1))})
    assert scraped.value("topology_nodes", topology="other") == 4
    scraped.metrics.show({"cluster": reported(racks(2))})
    assert "other" not in scraped.labels()
    assert "grove.io" not in scraped.labels()
    scraped.metrics.show({})
    assert "cluster" not in scraped.labels()


def test_prometheus_own_linter_has_no_objection(scraped: Scraped) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH (Debian: apt-get install prometheus)")
    scraped.metrics.requests(Request("GET", "/api/v1/nodes", {}))(200)
    scraped.metrics.watches.listed("/api/v1/nodes", "first")
    scraped.metrics.watches.heard("/api/v1/nodes")
    scraped.metrics.reaction_seconds.observe(0.1)
    for reports in ({}, {"cluster": reported(racks(12, nodes=13), (IN_SYNC, CONFLICT))}, {"empty": reported([])}):
        scraped.metrics.show(reports)
        text = generate_latest(scraped.registry)
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_the_build_is_named(scraped: Scraped) -> None:
    assert scraped.value("build_info", version=__version__) == 1


def test_requests_are_counted_by_what_they_do_and_how_they_end() -> None:
    registry, time = CollectorRegistry(), Time()
    observe = RequestMetrics(registry, time)
    write = apply("/apis/gpu.topology/v1alpha1/clustertopologies/cluster/status", {}, "m", force=True)
    for answer in (200, 200, 409, 0):
        answered = observe(write)
        time.seconds += 0.25
        answered(answer)
    resource = "clustertopologies.gpu.topology/status"
    for code, count in (("200", 2), ("409", 1), ("none", 1)):
        labels = {"verb": "apply", "resource": resource, "code": code}
        assert registry.get_sample_value("toposcope_api_requests_total", labels) == count
    seconds = "toposcope_api_request_duration_seconds"
    assert registry.get_sample_value(f"{seconds}_sum", {"verb": "apply"}) == 1.0
    assert registry.get_sample_value(f"{seconds}_bucket", {"verb": "apply", "le": "0.1"}) == 0


@pytest.mark.parametrize(
    ("path", "query", "code", "labels"),
    [
        pytest.param("/api/v1/nodes", {"watch": "true"}, 200, {"verb": "watch", "resource": "nodes"}, id="watch"),
        pytest.param("/apis/grove.io/v1alpha1", {}, 404, {"verb": "get", "resource": "discovery"}, id="discovery"),
    ],
)
def test_names_come_from_requests_and_watches_are_not_timed(
    path: str, query: dict[str, str], code: int, labels: dict[str, str]
) -> None:
    registry = CollectorRegistry()
    RequestMetrics(registry)(Request("GET", path, query))(code)
    assert registry.get_sample_value("toposcope_api_requests_total", labels | {"code": str(code)}) == 1
    timed = registry.get_sample_value("toposcope_api_request_duration_seconds_count", {"verb": labels["verb"]})
    assert timed == (None if labels["verb"] == "watch" else 1)


def test_watches_tell_when_they_were_heard_and_why_they_began_again() -> None:
    registry, now = CollectorRegistry(), Time()
    watches = WatchMetrics(registry, now)
    now.seconds = 100
    watches.listed("/api/v1/nodes", "first")
    watches.listed("/api/v1/nodes", "expired")
    now.seconds = 160
    watches.heard("/api/v1/nodes")
    nodes = {"resource": "nodes"}
    assert registry.get_sample_value("toposcope_watch_last_heard_timestamp_seconds", nodes) == START.timestamp() + 160
    assert registry.get_sample_value("toposcope_watch_events_total", nodes) == 1
    for reason, count in (("first", 1), ("expired", 1), ("unreachable", 0)):
        assert registry.get_sample_value("toposcope_lists_total", nodes | {"reason": reason}) == count
    watches.ended("/api/v1/nodes")
    assert registry.get_sample_value("toposcope_watch_last_heard_timestamp_seconds", nodes) is None
    assert registry.get_sample_value("toposcope_watch_events_total", nodes) == 1


def test_two_versions_of_a_kind_are_one_resource() -> None:
    registry, now = CollectorRegistry(), Time()
    watches = WatchMetrics(registry, now)
    for version, moment in (("v1beta1", 20), ("v1alpha1", 10)):
        now.seconds = moment
        watches.listed(DGD.format(version), "first")
        watches.heard(DGD.format(version))
    resource = {"resource": "dynamographdeployments.nvidia.com"}
    assert registry.get_sample_value("toposcope_lists_total", resource | {"reason": "first"}) == 2
    assert registry.get_sample_value("toposcope_watch_last_heard_timestamp_seconds", resource) == START.timestamp() + 20
    samples = [s for family in registry.collect() for s in family.samples]
    assert len(samples) == len({(s.name, tuple(s.labels.items())) for s in samples})


def test_the_first_change_counts_until_the_work_is_done() -> None:
    time = Time()
    wake = Trigger(time)
    assert not wake.wait(0)
    assert wake.done() is None
    time.seconds = 10
    wake.set()
    time.seconds = 12
    wake.set()
    assert wake.wait(0)
    wake.clear()
    assert not wake.wait(0)
    time.seconds = 13
    wake.set()  # comes while the loop works, and the work fails
    wake.clear()
    time.seconds = 15
    assert wake.done() == 5
    assert wake.done() is None
    wake.set()
    time.seconds = 16
    wake.clear()
    assert wake.done() == 1
