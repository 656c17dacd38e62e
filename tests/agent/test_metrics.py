"""What Prometheus reads from an agent: names, values, and series that end with what they were about."""

import os
import re
import shutil
import subprocess
import time
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
from toposcope.agent.fabric import HEALTH_BITS
from toposcope.agent.metrics import REASONS, AgentMetrics, Outcome
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.api.label_keys import REFERENCE
from toposcope.controller.metrics import ControllerMetrics, LeaderMetrics
from toposcope.simulator.faults import Faults
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs
from toposcope.topology.hardware import Fabric, State

DOCUMENT = DOCS / "metrics.md"
PREFIX = "toposcope_agent_"


class Scraped:
    """An agent's metrics, as the last scrape saw them."""

    def __init__(self, worker: int | None = None, *, pairs: bool = False) -> None:
        self.registry = CollectorRegistry()
        self.metrics = AgentMetrics()
        self.registry.register(AgentCollector(self.metrics, lambda: worker, pairs=pairs))  # type: ignore[arg-type]  # it takes whatever has the attributes

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(PREFIX + name, labels)

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """The samples of a metric by one of their labels, among those that have `labels` too."""
        return {
            sample.labels[label]: sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
        }

    def names(self) -> set[str]:
        """The names of all samples."""
        return {sample.name.removeprefix(PREFIX) for family in self.registry.collect() for sample in family.samples}


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def of(profile: str, folder: Path, faults: Faults | None = None) -> Description:
    return describe(probed(load_profile(profile), folder, faults), "n1")


def exposed(registry: CollectorRegistry) -> set[str]:
    """Names as a query writes them, counters with their `_total`."""
    suffix = {"counter": "_total", "info": "_info"}
    return {family.name + suffix.get(family.type, "") for family in registry.collect()}


def test_every_metric_is_documented_and_nothing_else() -> None:
    controller = CollectorRegistry()
    ControllerMetrics(controller)
    LeaderMetrics(controller, lambda: True)
    rows = re.findall(r"^\| `(\w+)", DOCUMENT.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(
        exposed(Scraped(pairs=True).registry) | exposed(controller) | {one.name for one in families()["planning"]}
    )


def test_the_histograms_of_both_programs_write_their_bounds_alike(scraped: Scraped) -> None:
    """As client_golang does: a query that matches `le` as text finds the series of both."""
    controller = CollectorRegistry()
    ControllerMetrics(controller)
    for registry in (scraped.registry, controller):
        samples = [s for f in text_string_to_metric_families(generate_latest(registry).decode()) for s in f.samples]
        bounds = [sample.labels["le"] for sample in samples if sample.name.endswith("_bucket")]
        *finite, last = bounds[: bounds.index("+Inf") + 1]
        assert (finite, last) == ([str(float(bound)) for bound in finite], "+Inf")


def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH (Debian: apt-get install prometheus)")
    scraped = Scraped(os.getpid(), pairs=True)
    scraped.metrics.probe_succeeded(0.01, 1.0)
    scraped.metrics.published("written", 1.0)
    for description in (unknown("crash", "NVML is gone"), of("gb200-nvl72-tray", tmp_path)):
        scraped.metrics.description = description
        text = generate_latest(scraped.registry)
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_before_the_first_probe_there_are_no_metrics_of_the_node(scraped: Scraped) -> None:
    assert scraped.names() & {"node_state", "fabric_state", "gpus_seen", "gpus_expected", "gpu_nvlinks"} == set()
    assert scraped.value("last_successful_probe_timestamp_seconds") == 0
    assert scraped.value("last_successful_publish_timestamp_seconds") == 0
    assert scraped.by("reason", "probe_failures_total") == dict.fromkeys(REASONS, 0)
    assert scraped.by("outcome", "publishes_total") == dict.fromkeys(get_args(Outcome), 0)
    assert scraped.value("build_info", version=__version__) == 1


def test_probes_are_counted_by_how_they_ended(scraped: Scraped) -> None:
    scraped.metrics.probe_succeeded(0.03, 1000.0)
    scraped.metrics.probe_failed("hang", 60.0)
    scraped.metrics.probe_failed("an unknown reason", 1.0)
    assert scraped.value("last_successful_probe_timestamp_seconds") == 1000.0
    assert scraped.value("probe_duration_seconds_count") == 3
    assert scraped.value("probe_duration_seconds_sum") == pytest.approx(61.03)
    assert scraped.by("reason", "probe_failures_total") == dict.fromkeys(REASONS, 0) | {"hang": 1, "other": 1}


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_the_node_is_up_to_date_when_it_was_written_or_needed_no_write(scraped: Scraped, outcome: Outcome) -> None:
    scraped.metrics.published(outcome, 1000.0)
    assert scraped.by("outcome", "publishes_total")[outcome] == 1
    published = scraped.value("last_successful_publish_timestamp_seconds")
    assert published == (1000.0 if outcome in ("written", "unchanged") else 0)


def test_a_healthy_node(scraped: Scraped, tmp_path: Path) -> None:
    scraped.metrics.description = of("dgx-h200", tmp_path)
    gpus = [gpu.function.address for gpu in load_profile("dgx-h200").gpus]
    assert (scraped.value("gpus_expected"), scraped.value("gpus_seen")) == (8, 8)
    assert scraped.by("state", "node_state") == {"ok": 1, "degraded": 0, "unknown": 0}
    assert scraped.by("state", "fabric_state") == {state: state is Fabric.NOT_SUPPORTED for state in Fabric}
    assert scraped.by("gpu", "gpu_nvlinks") == dict.fromkeys(gpus, 18)
    assert scraped.by("gpu", "gpu_nvlinks_active") == dict.fromkeys(gpus, 18)
    assert scraped.by("gpu", "gpu_nvlink_bandwidth_bytes_per_second") == dict.fromkeys(gpus, 18 * 26_562e6)
    assert list(scraped.by("gpu", "gpu_numa_node").values()) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert scraped.by("gpu", "gpu_mig_devices") == dict.fromkeys(gpus, 0)
    assert scraped.names() & {"gpu_fabric_health_bad", "pair_nvlinks"} == set()


def test_the_series_of_a_lost_gpu_end(scraped: Scraped, tmp_path: Path) -> None:
    lost = load_profile("dgx-h200").gpus[3].function.address
    scraped.metrics.description = of("dgx-h200", tmp_path)
    assert f'gpu="{lost}"' in generate_latest(scraped.registry).decode()
    scraped.metrics.description = of("dgx-h200", tmp_path, Faults(lost=frozenset({3})))
    assert f'gpu="{lost}"' not in generate_latest(scraped.registry).decode()
    assert (scraped.value("gpus_expected"), scraped.value("gpus_seen")) == (8, 7)
    assert scraped.by("state", "node_state") == {"ok": 0, "degraded": 1, "unknown": 0}


def test_dead_links_show_in_their_number_and_bandwidth(scraped: Scraped, tmp_path: Path) -> None:
    weak, dead, *_ = (gpu.function.address for gpu in load_profile("dgx-h200").gpus)
    scraped.metrics.description = of("dgx-h200", tmp_path, Faults(links_down={0: frozenset({5}), 1: "all"}))
    for name, factor in (("gpu_nvlinks_active", 1), ("gpu_nvlink_bandwidth_bytes_per_second", 26_562e6)):
        values = scraped.by("gpu", name)
        assert (values[weak], values[dead]) == (17 * factor, 0)


def test_a_bandwidth_that_nvml_does_not_report_has_no_series(scraped: Scraped, tmp_path: Path) -> None:
    description = of("dgx-h200", tmp_path)
    assert description.topology
    first, *others = description.topology.gpus
    silent = tuple(link._replace(mbps=None) for link in first.links)
    topology = description.topology._replace(gpus=(first._replace(links=silent, numa=None), *others))
    scraped.metrics.description = description._replace(topology=topology)
    assert first.pci not in scraped.by("gpu", "gpu_nvlink_bandwidth_bytes_per_second")
    assert scraped.by("gpu", "gpu_numa_node")[first.pci] == -1


def test_a_failed_probe_leaves_no_stale_metrics(scraped: Scraped, tmp_path: Path) -> None:
    scraped.metrics.description = of("dgx-h200", tmp_path)
    scraped.metrics.description = unknown("hang", "the driver hangs")
    assert scraped.by("state", "node_state") == {"ok": 0, "degraded": 0, "unknown": 1}
    assert not {name for name in scraped.names() if name.startswith(("gpu", "fabric"))}
    scraped.metrics.description = of("dgx-h200", tmp_path, Faults(init_error=9))
    assert (scraped.value("gpus_expected"), scraped.value("gpus_seen")) == (8, None)


def test_a_node_without_gpus_is_ok(scraped: Scraped, tmp_path: Path) -> None:
    bare = probed(load_profile("t4-1"), tmp_path)._replace(gpus=(), gpu_functions=())
    scraped.metrics.description = describe(bare, "n1")
    assert (scraped.value("gpus_expected"), scraped.value("gpus_seen")) == (0, 0)
    assert scraped.by("state", "node_state") == {state: state is State.OK for state in State}


def test_the_health_of_each_gpu_in_a_fabric(scraped: Scraped, tmp_path: Path) -> None:
    route_unhealthy = 1 << 4
    scraped.metrics.description = of("gb200-nvl72-tray", tmp_path, Faults(fabric={1: {"health_mask": route_unhealthy}}))
    well, sick, *_ = (gpu.function.address for gpu in load_profile("gb200-nvl72-tray").gpus)
    assert scraped.by("bit", "gpu_fabric_health_bad", gpu=well) == dict.fromkeys(HEALTH_BITS, 0)
    assert scraped.by("bit", "gpu_fabric_health_bad", gpu=sick) == {
        bit: bit == "route_unhealthy" for bit in HEALTH_BITS
    }
    assert scraped.by("state", "fabric_state") == {state: state is Fabric.COMPLETED for state in Fabric}


def test_the_registration_state_of_each_gpu(scraped: Scraped, tmp_path: Path) -> None:
    """A node half registered and GPUs that disagree look alike on the node's own series only."""
    first, second, *_ = (gpu.function.address for gpu in load_profile("gb200-nvl72-tray").gpus)

    def states(faults: dict[int, Any]) -> tuple[str, ...]:
        scraped.metrics.description = of("gb200-nvl72-tray", tmp_path, Faults(fabric=faults))
        by_gpu = [scraped.by("state", "gpu_fabric_state", gpu=gpu) for gpu in (first, second)]
        return tuple(next(s for s, v in by.items() if v) for by in [scraped.by("state", "fabric_state"), *by_gpu])

    assert states({}) == ("completed", "completed", "completed")
    assert states({i: {"state": 2} for i in range(4)}) == ("in-progress", "in-progress", "in-progress")
    assert states({1: {"state": 1}}) == ("in-progress", "completed", "not-started")
    assert states({1: {"clique": 5}}) == ("failed", "completed", "completed")
    assert states({1: {"status": 999}}) == ("failed", "completed", "failed")
    assert states({i: {"state": 0} for i in range(4)}) == ("not-supported", "not-supported", "not-supported")


def test_links_that_should_be_up(scraped: Scraped, tmp_path: Path) -> None:
    machine = load_profile("rtx3090-2-nvlink")
    whole = describe(probed(machine, tmp_path), "n1")
    loose = probed(machine, tmp_path, Faults(links_down={0: frozenset({3})}))
    gpus = [gpu.function.address for gpu in machine.gpus]
    for baseline, expected in ((None, 3), (whole.annotations[REFERENCE], 4)):
        scraped.metrics.description = describe(loose, "n1", baseline)
        assert scraped.by("gpu", "gpu_nvlinks_active") == dict.fromkeys(gpus, 3)
        assert scraped.by("gpu", "gpu_nvlinks_expected") == dict.fromkeys(gpus, expected)
    scraped.metrics.description = of("dgx-h200", tmp_path / "dgx", Faults(links_down={0: frozenset({5}), 1: "all"}))
    assert set(scraped.by("gpu", "gpu_nvlinks_expected").values()) == {18}


def test_a_product_without_mig_has_no_series(scraped: Scraped, tmp_path: Path) -> None:
    scraped.metrics.description = of("t4-1", tmp_path)
    assert scraped.by("gpu", "gpu_mig_devices") == {}


def test_pair_metrics_are_exposed_on_request(tmp_path: Path) -> None:
    scraped = Scraped(pairs=True)
    scraped.metrics.description = of("dgx-h200", tmp_path, Faults(links_down={1: frozenset({5})}))
    first, second, *_ = (gpu.function.address for gpu in load_profile("dgx-h200").gpus)
    devices = 8 + 12
    samples = [sample for family in scraped.registry.collect() for sample in family.samples]
    assert sum(sample.name == f"{PREFIX}pair_nvlinks" for sample in samples) == devices * (devices - 1) / 2
    assert scraped.value("pair_nvlinks", a=first, b=second, path="NV") == 17
    nics = scraped.by("b", "pair_nvlinks", a=first, path="PXB")
    assert set(nics.values()) == {0}
    assert all(name.startswith("mlx5_") for name in nics)


def test_memory_and_cpu_are_those_of_the_process() -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
    before = time.process_time()
    own = usage(None)["agent"]
    assert resident * 0.8 < own.resident < resident * 1.2
    # The kernel counts user and system time in ticks, each rounded down.
    assert before - 2 / os.sysconf("SC_CLK_TCK") <= own.cpu <= time.process_time()


def test_a_process_that_is_gone_has_no_usage() -> None:
    gone = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(gone, 0)
    assert usage(None).keys() == usage(gone).keys() == {"agent"}


def test_the_processes_of_a_live_agent(tmp_path: Path) -> None:
    machine = load_profile("t4-1")
    write_sysfs(machine, tmp_path)
    with ProbeProcess(lambda: SimulatedNvml(machine), tmp_path) as probe:
        probe.probe()
        scraped = Scraped(probe.worker)
        resident = scraped.by("process", "process_resident_memory_bytes")
        cpu = scraped.by("process", "process_cpu_seconds_total")
    assert resident.keys() == cpu.keys() == {"agent", "worker"}
    assert all(1 << 20 < value < 1 << 30 for value in resident.values())
    assert cpu["agent"] > 0
