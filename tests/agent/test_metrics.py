"""What Prometheus reads from an agent: names, values, and series that end with what they were about."""

import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.machines import probed
from tests.support.paths import DOCS
from tools.docgen.metrics import families
from toposcope import __version__
from toposcope.agent.collector import AgentCollector, usage
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.metrics import REASONS, AgentMetrics, Outcome
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.api.label_keys import REFERENCE
from toposcope.controller.metrics import ControllerMetrics, LeaderMetrics
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

DOCUMENT = DOCS / "metrics.md"
PREFIX = "toposcope_agent_"


class Scraped:
    """An agent's metrics, as the last scrape saw them."""

    def __init__(self, worker: int | None = None, *, pairs: bool = False) -> None:
        self.metrics = AgentMetrics()
        collector = AgentCollector(self.metrics, lambda: worker, has_pairs=pairs)
        self.registry = CollectorRegistry()
        self.registry.register(collector)  # type: ignore[arg-type]  # it takes whatever has the attributes

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(PREFIX + name, labels)

    @property
    def samples(self) -> dict[str, dict[str, float]]:
        """Values by those of their labels, by the name of the sample."""
        samples: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for family in self.registry.collect():
            for sample in family.samples:
                name = sample.name.removeprefix(PREFIX)
                labels = " ".join(sample.labels.values())
                samples[name][labels] = sample.value
        return samples

    def fabric_state(self) -> str:
        """The one state of the node's fabric that is set, of four."""
        states = self.samples["fabric_state"]
        assert len(states) == 4
        (state,) = those_set(states)
        return state


def those_set(samples: Mapping[str, float]) -> list[str]:
    """Labels of the samples whose value is not 0."""
    labels = []
    for label, value in samples.items():
        if value:
            labels.append(label)
    return labels


class Watched:
    """A machine that is probed and scraped again and again."""

    def __init__(self, machine: Machine, scraped: Scraped, folder: Path) -> None:
        self._machine = machine
        self._scraped = scraped
        self._folder = folder

    def baseline(self) -> str:
        """What the agent remembers of the machine without faults."""
        raw = probed(self._machine, self._folder)
        description = describe(raw, "n1")
        return description.annotations[REFERENCE]

    def scrape(self, faults: MachineFaults | None = None, baseline: str | None = None) -> Scraped:
        """What the next scrape shows after a probe."""
        raw = probed(self._machine, self._folder, faults)
        description = describe(raw, "n1", baseline)
        return self.scrape_of(description)

    def scrape_of(self, description: Description) -> Scraped:
        """What the next scrape shows of what was found."""
        self._scraped.metrics.description = description
        return self._scraped


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def of(profile: str, folder: Path, faults: MachineFaults | None = None) -> Description:
    raw = probed(load_profile(profile), folder, faults)
    return describe(raw, "n1")


def exposed(registry: CollectorRegistry) -> set[str]:
    """Names as a query writes them, counters with their `_total`."""
    suffixes = {"counter": "_total", "info": "_info"}
    names = set()
    for family in registry.collect():
        suffix = suffixes.get(family.type, "")
        names.add(family.name + suffix)
    return names


def test_every_metric_is_documented_and_nothing_else() -> None:
    controller = CollectorRegistry()
    ControllerMetrics(controller)
    LeaderMetrics(controller, lambda: True)
    agent = Scraped(pairs=True)
    names = exposed(agent.registry) | exposed(controller)
    for family in families()["planning"]:
        names.add(family.name)
    text = DOCUMENT.read_text()
    rows = re.findall(r"^\| `(\w+)", text, re.MULTILINE)
    assert sorted(rows) == sorted(names)


@pytest.mark.regression
def test_histograms_of_both_programs_write_their_bounds_alike(scraped: Scraped) -> None:
    """As client_golang does: a query that matches `le` as text finds the series of both."""
    controller = CollectorRegistry()
    ControllerMetrics(controller)
    for registry in (scraped.registry, controller):
        text = generate_latest(registry).decode()
        finite = first_bounds(text)
        assert finite
        for bound in finite:
            assert bound == str(float(bound))


def first_bounds(text: str) -> list[str]:
    """The bounds of the first histogram up to +Inf."""
    bounds = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                bounds.append(sample.labels["le"])
    return bounds[: bounds.index("+Inf")]


def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH (Debian: apt-get install prometheus)")
    scraped = Scraped(os.getpid(), pairs=True)
    scraped.metrics.probe_succeeded(0.01, 1.0)
    scraped.metrics.published("written", 1.0)
    crashed = unknown("crash", "NVML is gone")
    tray = of("gb200-nvl72-tray", tmp_path)
    for description in (crashed, tray):
        scraped.metrics.description = description
        text = generate_latest(scraped.registry)
        checked = subprocess.run(
            [promtool, "check", "metrics"],
            input=text,
            capture_output=True,
            check=False,
        )
        assert checked.stdout == b""
        assert checked.stderr == b""
        assert checked.returncode == 0


def test_before_the_first_probe_there_are_no_metrics_of_the_node(scraped: Scraped) -> None:
    samples = scraped.samples
    for name in ("node_state", "fabric_state", "gpus_seen", "gpus_expected", "gpu_nvlinks"):
        assert name not in samples
    assert scraped.value("last_successful_probe_timestamp_seconds") == 0
    assert scraped.value("last_successful_publish_timestamp_seconds") == 0
    assert samples["probe_failures_total"] == dict.fromkeys(REASONS, 0)
    assert samples["publishes_total"] == dict.fromkeys(get_args(Outcome), 0)
    assert scraped.value("build_info", version=__version__) == 1


def test_probes_are_counted_by_how_they_ended(scraped: Scraped) -> None:
    metrics = scraped.metrics
    metrics.probe_succeeded(0.03, 1000.0)
    metrics.probe_failed("hang", 60.0)
    metrics.probe_failed("an unknown reason", 1.0)
    assert scraped.value("last_successful_probe_timestamp_seconds") == 1000.0
    assert scraped.value("probe_duration_seconds_count") == 3
    assert scraped.value("probe_duration_seconds_sum") == pytest.approx(61.03)
    assert scraped.samples["probe_failures_total"] == {
        **dict.fromkeys(REASONS, 0),
        "hang": 1,
        "other": 1,
    }


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_node_is_up_to_date_when_written_or_unchanged(scraped: Scraped, outcome: Outcome) -> None:
    scraped.metrics.published(outcome, 1000.0)
    assert scraped.samples["publishes_total"][outcome] == 1
    published = scraped.value("last_successful_publish_timestamp_seconds")
    is_up_to_date = outcome in ("written", "unchanged")
    assert published == (1000.0 if is_up_to_date else 0)


def test_bandwidth_that_nvml_does_not_report_has_no_series(scraped: Scraped, tmp_path: Path) -> None:
    description = of("dgx-h200", tmp_path)
    topology = description.topology
    assert topology
    first, *others = topology.gpus
    silent_links = []
    for link in first.links:
        silent_links.append(link._replace(mbps=None))
    silent = first._replace(links=tuple(silent_links), numa=None)
    topology = topology._replace(gpus=(silent, *others))
    scraped.metrics.description = description._replace(topology=topology)
    samples = scraped.samples
    assert first.pci not in samples["gpu_nvlink_bandwidth_bytes_per_second"]
    assert samples["gpu_numa_node"][first.pci] == -1


# What a scrape shows of a machine

H200_GPUS = (
    "0000:1d:00.0",
    "0000:3f:00.0",
    "0000:50:00.0",
    "0000:61:00.0",
    "0000:9d:00.0",
    "0000:bf:00.0",
    "0000:d0:00.0",
    "0000:e1:00.0",
)
TRAY_GPUS = ("0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0")
FULL_BANDWIDTH = 478.116e9


@pytest.fixture
def h200(scraped: Scraped, tmp_path: Path) -> Watched:
    return Watched(load_profile("dgx-h200"), scraped, tmp_path)


@pytest.fixture
def tray(scraped: Scraped, tmp_path: Path) -> Watched:
    return Watched(load_profile("gb200-nvl72-tray"), scraped, tmp_path)


@pytest.fixture
def bridge(scraped: Scraped, tmp_path: Path) -> Watched:
    return Watched(load_profile("rtx3090-2-nvlink"), scraped, tmp_path)


def of_each_h200(value: float) -> dict[str, float]:
    """The same value for each GPU of the board."""
    return dict.fromkeys(H200_GPUS, value)


def of_each_bridged(value: float) -> dict[str, float]:
    """The same value for both cards with a bridge."""
    return dict.fromkeys(BRIDGE_GPUS, value)


def test_healthy_node_shows_all_its_gpus(h200: Watched) -> None:
    scrape = h200.scrape()
    samples = scrape.samples
    assert scrape.value("gpus_expected") == 8
    assert scrape.value("gpus_seen") == 8
    assert samples["node_state"] == {"ok": 1, "degraded": 0, "unknown": 0}
    assert samples["fabric_state"] == {
        "not-supported": 1,
        "in-progress": 0,
        "completed": 0,
        "failed": 0,
    }
    assert samples["gpu_nvlinks"] == of_each_h200(18)
    assert samples["gpu_nvlinks_active"] == of_each_h200(18)
    assert samples["gpu_nvlinks_expected"] == of_each_h200(18)
    assert samples["gpu_nvlink_bandwidth_bytes_per_second"] == of_each_h200(FULL_BANDWIDTH)
    assert samples["gpu_numa_node"] == {
        **dict.fromkeys(H200_GPUS[:4], 0),
        **dict.fromkeys(H200_GPUS[4:], 1),
    }
    assert samples["gpu_mig_devices"] == of_each_h200(0)
    assert samples["gpu_fabric_health_bad"] == {}
    assert samples["pair_nvlinks"] == {}


def test_series_of_a_lost_gpu_end(h200: Watched) -> None:
    before = h200.scrape().samples
    assert before["gpu_nvlinks"] == of_each_h200(18)

    lost = MachineFaults(lost=frozenset({3}))
    scrape = h200.scrape(lost)
    samples = scrape.samples
    assert scrape.value("gpus_expected") == 8
    assert scrape.value("gpus_seen") == 7
    assert samples["node_state"] == {"ok": 0, "degraded": 1, "unknown": 0}
    assert H200_GPUS[3] not in str(samples)


def test_dead_links_show_in_their_number_and_bandwidth(h200: Watched) -> None:
    dead_links = MachineFaults(links_down={0: frozenset({5}), 1: "all"})
    samples = h200.scrape(dead_links).samples
    first, second, *others = H200_GPUS
    assert samples["gpu_nvlinks_expected"] == of_each_h200(18)
    assert samples["gpu_nvlinks_active"] == {
        first: 17,
        second: 0,
        **dict.fromkeys(others, 18),
    }
    assert samples["gpu_nvlink_bandwidth_bytes_per_second"] == {
        first: 451.554e9,
        second: 0,
        **dict.fromkeys(others, FULL_BANDWIDTH),
    }


def test_failed_probe_leaves_no_stale_metrics(h200: Watched) -> None:
    before = h200.scrape().samples
    assert before["gpu_nvlinks"] == of_each_h200(18)

    hanging = unknown("hang", "the driver hangs")
    samples = h200.scrape_of(hanging).samples
    assert samples["node_state"] == {"ok": 0, "degraded": 0, "unknown": 1}
    assert "gpu" not in str(samples)
    assert "fabric" not in str(samples)


def test_nvml_that_does_not_start_leaves_the_gpus_of_the_bus(h200: Watched) -> None:
    scrape = h200.scrape(MachineFaults(init_error=9))
    assert scrape.value("gpus_expected") == 8
    assert scrape.samples["gpus_seen"] == {}


def test_node_without_gpus_is_ok(scraped: Scraped, tmp_path: Path) -> None:
    machine = replace(load_profile("t4-1"), gpus=())
    empty = Watched(machine, scraped, tmp_path)
    scrape = empty.scrape()
    assert scrape.value("gpus_expected") == 0
    assert scrape.value("gpus_seen") == 0
    assert scrape.samples["node_state"] == {"ok": 1, "degraded": 0, "unknown": 0}


def test_product_without_mig_has_no_series_of_it(scraped: Scraped, tmp_path: Path) -> None:
    t4 = Watched(load_profile("t4-1"), scraped, tmp_path)
    scrape = t4.scrape()
    assert scrape.value("gpus_seen") == 1
    assert scrape.samples["gpu_mig_devices"] == {}


def test_bad_fabric_health_shows_its_gpu_and_bit(tray: Watched) -> None:
    bad = MachineFaults(fabric={1: {"health_mask": 0b01_0000}})
    scrape = tray.scrape(bad)
    assert scrape.fabric_state() == "completed"
    health = scrape.samples["gpu_fabric_health_bad"]
    assert those_set(health) == ["0009:01:00.0 route_unhealthy"]
    assert len(health) == 28


@pytest.mark.parametrize(
    ("answers", "node_state", "gpu_states"),
    [
        pytest.param({}, "completed", ["completed"] * 4, id="registered"),
        pytest.param({gpu: {"state": 2} for gpu in range(4)}, "in-progress", ["in-progress"] * 4, id="registering"),
        pytest.param(
            {1: {"state": 1}},
            "in-progress",
            ["completed", "not-started", "completed", "completed"],
            id="half-registered",
        ),
        pytest.param({1: {"clique": 5}}, "failed", ["completed"] * 4, id="two-cliques"),
        pytest.param(
            {1: {"status": 999}}, "failed", ["completed", "failed", "completed", "completed"], id="failed-registration"
        ),
        pytest.param({gpu: {"state": 0} for gpu in range(4)}, "failed", ["failed"] * 4, id="no-fabric"),
    ],
)
def test_registration_state_of_each_gpu_is_shown(
    tray: Watched, answers: Mapping[int, Any], node_state: str, gpu_states: list[str]
) -> None:
    """A node half registered and GPUs that disagree look alike on the node's own series only."""
    scrape = tray.scrape(MachineFaults(fabric=answers))
    assert scrape.fabric_state() == node_state
    states = scrape.samples["gpu_fabric_state"]
    expected = []
    for gpu, state in zip(TRAY_GPUS, gpu_states, strict=True):
        expected.append(f"{gpu} {state}")
    assert those_set(states) == expected
    assert len(states) == 20


LOOSE_BRIDGE = MachineFaults(links_down={0: frozenset({3})})
BRIDGE_GPUS = ("0000:21:00.0", "0000:41:00.0")


def test_links_expected_are_those_that_the_gpus_have_among_themselves(bridge: Watched) -> None:
    samples = bridge.scrape(LOOSE_BRIDGE).samples
    assert samples["gpu_nvlinks_active"] == of_each_bridged(3)
    assert samples["gpu_nvlinks_expected"] == of_each_bridged(3)


def test_links_expected_are_those_that_the_gpus_had_before(bridge: Watched) -> None:
    baseline = bridge.baseline()
    samples = bridge.scrape(LOOSE_BRIDGE, baseline).samples
    assert samples["gpu_nvlinks_active"] == of_each_bridged(3)
    assert samples["gpu_nvlinks_expected"] == of_each_bridged(4)


def test_pair_metrics_are_exposed_on_request(tmp_path: Path) -> None:
    scraped = Scraped(pairs=True)
    dead_link = MachineFaults(links_down={1: frozenset({5})})
    scraped.metrics.description = of("dgx-h200", tmp_path, dead_link)
    gpus_and_nics = 8 + 12
    pairs = scraped.samples["pair_nvlinks"]
    assert len(pairs) == gpus_and_nics * (gpus_and_nics - 1) / 2

    first, second, *_others = H200_GPUS
    assert pairs[f"{first} {second} NV"] == 17
    near = []
    for pair in pairs:
        if pair.startswith(first) and pair.endswith("PXB"):
            near.append(pair)
    assert near
    for pair in near:
        assert pair.startswith(f"{first} mlx5_")
        assert pairs[pair] == 0


def test_memory_and_cpu_are_those_of_the_process() -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    _size, resident_pages, *_others = Path("/proc/self/statm").read_text().split()
    resident = int(resident_pages) * page
    before = time.process_time()
    own = usage(None)["agent"]
    assert resident * 0.8 < own.resident < resident * 1.2
    # The kernel counts user and system time in ticks, each rounded down.
    two_ticks = 2 / os.sysconf("SC_CLK_TCK")
    assert before - two_ticks <= own.cpu <= time.process_time()


def test_process_that_is_gone_has_no_usage() -> None:
    gone = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(gone, 0)
    processes = usage(gone)
    assert processes.keys() == {"agent"}


def test_agent_without_a_worker_has_its_own_usage_alone() -> None:
    processes = usage(None)
    assert processes.keys() == {"agent"}


def test_live_agent_shows_usage_of_both_processes(tmp_path: Path) -> None:
    machine = load_profile("t4-1")
    write_sysfs(machine, tmp_path)
    with ProbeProcess(lambda: SimulatedNvml(machine), tmp_path) as probe:
        probe.probe()
        scraped = Scraped(probe.worker)
        resident = scraped.samples["process_resident_memory_bytes"]
        cpu = scraped.samples["process_cpu_seconds_total"]
    assert resident.keys() == {"agent", "worker"}
    for process, resident_bytes in resident.items():
        assert 1 << 20 < resident_bytes < 1 << 30, process
    assert cpu.keys() == {"agent", "worker"}
    assert cpu["agent"] > 0
