"""What Prometheus reads from a controller: its topologies, requests and watches, and how soon it reacts."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.samples import Sample
from tests.support.cluster import BLOCK, RACK, START, ZONE, fabric, gpu_node, topology
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

    def samples(self) -> list[Sample]:
        samples: list[Sample] = []
        for family in self.registry.collect():
            samples += family.samples
        return samples

    def labels(self) -> set[str]:
        """Every label value there is."""
        values: set[str] = set()
        for sample in self.samples():
            values.update(sample.labels.values())
        return values

    def show(self, **reports: Report) -> None:
        """Show these topologies."""
        self.metrics.show(reports)

    def topology(self, name: str, **labels: str) -> float | None:
        """A sample about the topology `cluster`."""
        return self.value(f"topology_{name}", topology="cluster", **labels)


def check_no_series_twice(samples: Sequence[Sample]) -> None:
    series = []
    for sample in samples:
        series.append((sample.name, tuple(sample.labels.items())))
    assert len(series) == len(set(series))


def reported(nodes: Sequence[NodeFacts], published: Sequence[Published] = (), **spec: Any) -> Report:
    asked = topology(**spec)
    evidence = Evidence(nodes, required=["block", "row"])
    found = assess(asked, evidence, Memory())
    conditions = conditions_of(asked, found, published, is_any_served=True)
    sizes = level_sizes(found.effective.levels, found.selected)
    demand = {"rack": 0, "block": 3, "row": 1}
    return report(found, conditions, published, demand, sizes)


def racks(count: int, nodes: int = 4) -> list[NodeFacts]:
    """In the first one node is degraded, in the second two, and so on."""
    made = []
    for rack in range(count):
        labels = {"rack": f"r{rack}"}
        for i in range(nodes):
            state = "degraded" if i <= rack else "ok"
            made.append(gpu_node(f"r{rack}-n{i}", labels, state=state))
    return made


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_sizes_and_coverage_of_each_level(scraped: Scraped) -> None:
    bare = gpu_node("bare", {"rack": None})
    another = gpu_node("r0-n9", {"rack": "r0"})
    nodes = [*racks(3), bare, another]
    levels = [
        {"domain": "block", "key": BLOCK},
        {"domain": "rack", "key": RACK},
    ]
    scraped.show(cluster=reported(nodes, levels=levels))
    assert scraped.level("domains", "rack") == 3
    assert scraped.level("nodes", "rack") == 13
    assert scraped.level("nodes_missing", "rack") == 1
    assert scraped.level("gpus", "rack") == 104
    assert scraped.level("largest_domain_gpus", "rack") == 40
    assert scraped.level("coverage_ratio", "rack") == pytest.approx(13 / 14)
    assert scraped.topology("gpus") == 112
    assert scraped.topology("nodes") == 14


def test_what_is_asked_for_and_what_is_there(scraped: Scraped) -> None:
    idle = []
    for i in range(2):
        idle.append(gpu_node(f"n{i}", {"zone": f"z{i}"}, is_ready=False))
    scraped.show(cluster=reported(idle, required=["rack"]))

    def asked(domain: str) -> tuple[float | None, ...]:
        """Whether it is required, by how many workloads, and whether it is available."""
        return (
            scraped.level("required", domain),
            scraped.level("workloads", domain),
            scraped.level("available", domain),
        )

    assert asked("zone") == (0, 0, 0)
    assert asked("block") == (1, 3, 0)
    assert asked("rack") == (1, 0, 0)
    assert asked("row") == (1, 1, 0)
    scraped.show(cluster=reported(racks(1)))
    assert scraped.level("available", "block") == 1
    assert scraped.level("available", "row") == 0


def test_degraded_nodes_of_the_worst_domains_and_the_rest_in_one(scraped: Scraped) -> None:
    scraped.show(cluster=reported(racks(14, nodes=15)))

    def degraded(value: str, domain: str = "rack") -> float | None:
        labels = {
            "topology": "cluster",
            "domain": domain,
            "value": value,
        }
        return scraped.value("degraded_nodes", **labels)

    assert degraded("r13") == 14
    assert degraded("r4") == 5
    assert degraded("r3") is None
    assert degraded("_other") == 4 + 3 + 2 + 1
    assert degraded("_other", "host") == sum(range(1, 15))
    assert scraped.value("degraded_domains", topology="cluster", domain="rack") == 14
    assert scraped.topology("node_states", state="degraded") == 105


def test_no_series_names_a_node(scraped: Scraped) -> None:
    nodes = racks(5)
    scraped.show(cluster=reported(nodes))
    names = {node.name for node in nodes}
    assert not scraped.labels() & names


def test_the_fabric_in_numbers(scraped: Scraped) -> None:
    nodes = []
    for i in range(5):
        labels = {NVLINK_DOMAIN: fabric(1, clique=i // 4)}
        state = "degraded" if i == 4 else "ok"
        nodes.append(gpu_node(f"a{i}", labels, state=state))
    scraped.show(cluster=reported(nodes))
    assert scraped.topology("split_domains") == 1
    assert scraped.topology("small_domains") == 1


def test_rails_in_numbers(scraped: Scraped) -> None:
    wrong = Miscabled("n3", "uid-n3", "mlx5_2", "x", "p", "u0r2")
    rails = Rails(4, (wrong, wrong))
    scraped.show(cluster=replace(reported(racks(1)), rails=rails))
    assert scraped.topology("rail_nodes") == 4
    assert scraped.topology("miscabled_rails") == 2


def test_published_objects_and_conditions_have_one_state_of_several(scraped: Scraped) -> None:
    scraped.show(cluster=reported(racks(1), (IN_SYNC, CONFLICT)))

    def state(group: str, kind: str, name: str) -> float | None:
        labels = {
            "topology": "cluster",
            "group": group,
            "kind": kind,
            "state": name,
        }
        return scraped.value("published_state", **labels)

    def condition(kind: str, status: str) -> float | None:
        labels = {
            "topology": "cluster",
            "type": kind,
            "status": status,
        }
        return scraped.value("condition", **labels)

    assert state("grove.io", "ClusterTopologyBinding", "InSync") == 1
    assert state("kai.scheduler", "Topology", "InSync") == 0
    assert state("kai.scheduler", "Topology", "Conflict") == 1
    assert state("kai.scheduler", "Topology", "Rejected") == 0
    statuses = {
        "Published": "False",
        "Ready": "False",
        "HierarchyConsistent": "True",
    }
    for kind, status in statuses.items():
        for value in ("True", "False", "Unknown"):
            assert condition(kind, value) == (value == status)


def test_a_domain_that_a_spec_names_twice_has_one_series(scraped: Scraped) -> None:
    levels = [
        {"domain": "rack", "key": RACK},
        {"domain": "rack", "key": ZONE},
    ]
    scraped.show(cluster=reported(racks(3), levels=levels))
    check_no_series_twice(scraped.samples())
    assert scraped.level("domains", "rack") == 3


def test_a_topology_that_is_gone_has_no_series(scraped: Scraped) -> None:
    two_racks = reported(racks(2))
    published = reported(racks(2), (IN_SYNC,))
    scraped.show(cluster=published, other=reported(racks(1)))
    assert scraped.value("topology_nodes", topology="other") == 4
    scraped.show(cluster=two_racks)
    assert "other" not in scraped.labels()
    assert "grove.io" not in scraped.labels()
    scraped.show()
    assert "cluster" not in scraped.labels()


def test_prometheus_own_linter_has_no_objection(scraped: Scraped) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH (Debian: apt-get install prometheus)")
    scraped.metrics.requests(Request("GET", "/api/v1/nodes", {}))(200)
    scraped.metrics.watches.listed("/api/v1/nodes", "first")
    scraped.metrics.watches.heard("/api/v1/nodes")
    scraped.metrics.reaction_seconds.observe(0.1)
    full = reported(racks(12, nodes=13), (IN_SYNC, CONFLICT))
    several: list[dict[str, Report]] = [
        {},
        {"cluster": full},
        {"empty": reported([])},
    ]
    for reports in several:
        scraped.show(**reports)
        checked = subprocess.run(
            [promtool, "check", "metrics"],
            input=generate_latest(scraped.registry),
            capture_output=True,
            check=False,
        )
        assert checked.returncode == 0
        assert checked.stdout == b""
        assert checked.stderr == b""


def test_the_build_is_named(scraped: Scraped) -> None:
    assert scraped.value("build_info", version=__version__) == 1


def test_requests_are_counted_by_what_they_do_and_how_they_end() -> None:
    registry = CollectorRegistry()
    time = Time()
    observe = RequestMetrics(registry, time)
    write = apply("/apis/gpu.topology/v1alpha1/clustertopologies/cluster/status", {}, "m", force=True)
    for answer in (200, 200, 409, 0):
        answered = observe(write)
        time.seconds += 0.25
        answered(answer)
    resource = "clustertopologies.gpu.topology/status"
    for code, count in {"200": 2, "409": 1, "none": 1}.items():
        labels = {
            "verb": "apply",
            "resource": resource,
            "code": code,
        }
        assert registry.get_sample_value("toposcope_api_requests_total", labels) == count
    seconds = "toposcope_api_request_duration_seconds"
    applies = {"verb": "apply"}
    assert registry.get_sample_value(f"{seconds}_sum", applies) == 1.0
    assert registry.get_sample_value(f"{seconds}_bucket", {**applies, "le": "0.1"}) == 0


def counted_once(method: str, path: str, query: dict[str, str], code: int) -> CollectorRegistry:
    """What is counted of one request."""
    registry = CollectorRegistry()
    observe = RequestMetrics(registry)
    answered = observe(Request(method, path, query))
    answered(code)
    return registry


def test_watches_are_counted_and_not_timed() -> None:
    registry = counted_once("GET", "/api/v1/nodes", {"watch": "true"}, 200)
    labels = {
        "verb": "watch",
        "resource": "nodes",
        "code": "200",
    }
    assert registry.get_sample_value("toposcope_api_requests_total", labels) == 1
    seconds = "toposcope_api_request_duration_seconds_count"
    assert registry.get_sample_value(seconds, {"verb": "watch"}) is None


def test_discovery_is_counted_and_timed() -> None:
    registry = counted_once("GET", "/apis/grove.io/v1alpha1", {}, 404)
    labels = {
        "verb": "get",
        "resource": "discovery",
        "code": "404",
    }
    assert registry.get_sample_value("toposcope_api_requests_total", labels) == 1
    seconds = "toposcope_api_request_duration_seconds_count"
    assert registry.get_sample_value(seconds, {"verb": "get"}) == 1


def test_watches_tell_when_they_were_heard_and_why_they_began_again() -> None:
    registry = CollectorRegistry()
    now = Time()
    watches = WatchMetrics(registry, now)
    now.seconds = 100
    watches.listed("/api/v1/nodes", "first")
    watches.listed("/api/v1/nodes", "expired")
    now.seconds = 160
    watches.heard("/api/v1/nodes")
    nodes = {"resource": "nodes"}
    heard = "toposcope_watch_last_heard_timestamp_seconds"
    assert registry.get_sample_value(heard, nodes) == START.timestamp() + 160
    assert registry.get_sample_value("toposcope_watch_events_total", nodes) == 1
    for reason, count in {"first": 1, "expired": 1, "unreachable": 0}.items():
        lists = {**nodes, "reason": reason}
        assert registry.get_sample_value("toposcope_lists_total", lists) == count
    watches.ended("/api/v1/nodes")
    assert registry.get_sample_value(heard, nodes) is None
    assert registry.get_sample_value("toposcope_watch_events_total", nodes) == 1


def test_two_versions_of_a_kind_are_one_resource() -> None:
    scraped = Scraped()
    now = Time()
    watches = WatchMetrics(scraped.registry, now)
    for version, moment in {"v1beta1": 20, "v1alpha1": 10}.items():
        now.seconds = moment
        watches.listed(DGD.format(version), "first")
        watches.heard(DGD.format(version))
    resource = "dynamographdeployments.nvidia.com"
    assert scraped.value("lists_total", resource=resource, reason="first") == 2
    heard = scraped.value("watch_last_heard_timestamp_seconds", resource=resource)
    assert heard == START.timestamp() + 20
    check_no_series_twice(scraped.samples())


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
