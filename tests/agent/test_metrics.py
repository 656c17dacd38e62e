"""What Prometheus reads from an agent: names, values, and series that end with what they were about."""

import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.machines import probed
from tests.support.paths import DOCS
from tests.support.tables import each_row
from tools.docgen.metrics import families
from toposcope import __version__
from toposcope.agent.collector import AgentCollector, usage
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.metrics import REASONS, AgentMetrics, Outcome
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.api.label_keys import REFERENCE
from toposcope.controller.metrics import ControllerMetrics, LeaderMetrics
from toposcope.simulator.faults import Faults
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

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

    @property
    def samples(self) -> dict[str, dict[str, float]]:
        """Values by those of their labels, by the name of the sample."""
        found: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for sample in (sample for family in self.registry.collect() for sample in family.samples):
            found[sample.name.removeprefix(PREFIX)][" ".join(sample.labels.values())] = sample.value
        return found


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
        exposed(Scraped(pairs=True).registry) | exposed(controller) | {family.name for family in families()["planning"]}
    )


@pytest.mark.regression
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
    assert scraped.samples.keys() & {"node_state", "fabric_state", "gpus_seen", "gpus_expected", "gpu_nvlinks"} == set()
    assert scraped.value("last_successful_probe_timestamp_seconds") == 0
    assert scraped.value("last_successful_publish_timestamp_seconds") == 0
    assert scraped.samples["probe_failures_total"] == dict.fromkeys(REASONS, 0)
    assert scraped.samples["publishes_total"] == dict.fromkeys(get_args(Outcome), 0)
    assert scraped.value("build_info", version=__version__) == 1


def test_probes_are_counted_by_how_they_ended(scraped: Scraped) -> None:
    scraped.metrics.probe_succeeded(0.03, 1000.0)
    scraped.metrics.probe_failed("hang", 60.0)
    scraped.metrics.probe_failed("an unknown reason", 1.0)
    assert scraped.value("last_successful_probe_timestamp_seconds") == 1000.0
    assert scraped.value("probe_duration_seconds_count") == 3
    assert scraped.value("probe_duration_seconds_sum") == pytest.approx(61.03)
    assert scraped.samples["probe_failures_total"] == dict.fromkeys(REASONS, 0) | {"hang": 1, "other": 1}


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_the_node_is_up_to_date_when_it_was_written_or_needed_no_write(scraped: Scraped, outcome: Outcome) -> None:
    scraped.metrics.published(outcome, 1000.0)
    assert scraped.samples["publishes_total"][outcome] == 1
    published = scraped.value("last_successful_publish_timestamp_seconds")
    assert published == (1000.0 if outcome in ("written", "unchanged") else 0)


def test_a_bandwidth_that_nvml_does_not_report_has_no_series(scraped: Scraped, tmp_path: Path) -> None:
    description = of("dgx-h200", tmp_path)
    assert description.topology
    first, *others = description.topology.gpus
    silent = tuple(link._replace(mbps=None) for link in first.links)
    topology = description.topology._replace(gpus=(first._replace(links=silent, numa=None), *others))
    scraped.metrics.description = description._replace(topology=topology)
    assert first.pci not in scraped.samples["gpu_nvlink_bandwidth_bytes_per_second"]
    assert scraped.samples["gpu_numa_node"][first.pci] == -1


class Look(msgspec.Struct, forbid_unknown_fields=True):
    """What an agent finds of a machine, or that its probe failed, and what the next scrape shows."""

    machine: str = ""
    gpus: int | None = None
    """How many of them it has, where not all."""
    faults: dict[str, Any] = {}
    """As in a fault file."""
    known: bool = False
    """Whether the agent has seen it without faults."""
    shows: dict[str, dict[str, float]] = {}
    """All samples of a metric by the values of their labels, or `value` without any; only the `zeros` are counted."""
    lacks: list[str] = []
    """What is in no name of a sample and no value of a label."""


class Scrapes(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    looks: list[Look]


@each_row("scrapes.yaml", Scrapes, ids=lambda row: row.case)
def test_what_a_scrape_shows(row: Scrapes, scraped: Scraped, tmp_path: Path) -> None:
    for number, look in enumerate(row.looks):
        scraped.metrics.description = unknown("hang", "the driver hangs")
        if look.machine:
            whole, folder = load_profile(look.machine), tmp_path / str(number)
            machine = replace(whole, gpus=whole.gpus[: look.gpus])
            before = of(look.machine, tmp_path / "whole" / look.machine).annotations[REFERENCE] if look.known else None
            found = probed(machine, folder, msgspec.convert(look.faults, Faults))
            scraped.metrics.description = describe(found, "n1", before)
        samples = scraped.samples
        for name, expected in look.shows.items():
            shown = {labels or "value": value for labels, value in samples[name].items() if value}
            zeros = len(samples[name]) - len(shown)
            assert shown | ({"zeros": zeros} if zeros else {}) == expected, (number, name)
        assert not [word for word in look.lacks if word in str(samples)], number


def test_pair_metrics_are_exposed_on_request(tmp_path: Path) -> None:
    scraped = Scraped(pairs=True)
    scraped.metrics.description = of("dgx-h200", tmp_path, Faults(links_down={1: frozenset({5})}))
    first, second, *_ = (gpu.function.address for gpu in load_profile("dgx-h200").gpus)
    devices = 8 + 12
    pairs = scraped.samples["pair_nvlinks"]
    assert len(pairs) == devices * (devices - 1) / 2
    assert pairs[f"{first} {second} NV"] == 17
    nics = {pair: links for pair, links in pairs.items() if pair.startswith(first) and pair.endswith("PXB")}
    assert set(nics.values()) == {0}
    assert all(pair.startswith(f"{first} mlx5_") for pair in nics)


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
        resident = scraped.samples["process_resident_memory_bytes"]
        cpu = scraped.samples["process_cpu_seconds_total"]
    assert resident.keys() == cpu.keys() == {"agent", "worker"}
    assert all(1 << 20 < value < 1 << 30 for value in resident.values())
    assert cpu["agent"] > 0
