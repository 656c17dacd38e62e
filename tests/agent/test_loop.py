"""The agent over hours of simulated time, at rest and in trouble: what it writes, requests and logs."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.api import error_of
from tests.support.living_agent import Node
from tests.support.tables import each_case, each_row, says
from toposcope.agent.raw import RawNode
from toposcope.api import label_keys
from toposcope.kube.errors import ApiError
from toposcope.simulator.faults import Faults
from toposcope.simulator.profile import load_profile


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(load_profile("rtx3090-2-nvlink"), tmp_path)


def test_once_waits_for_nothing(tmp_path: Path) -> None:
    node = Node(load_profile("t4-1"), tmp_path, once=True)
    assert node.agent.sync()
    assert len(node.cluster.writes) == 1


def test_a_link_that_flaps_every_five_seconds_is_at_most_a_write_a_minute(node: Node) -> None:
    node.live(120)
    before = len(node.cluster.writes)
    for step in range(240):  # twenty minutes, an event each time
        node.faults = Faults(links_down={0: frozenset({step % 4})}) if step % 2 else Faults()
        node.agent.sync()
        node.seconds += 5
    assert len(node.cluster.writes) - before <= 20


def test_accept_degraded_makes_today_the_baseline(node: Node, tmp_path: Path) -> None:
    node.live(120)
    node.faults = Faults(links_down={0: "all"})
    node.live(120)
    assert node.cluster.writes[-1].labels.known[label_keys.STATE] == "degraded"
    accepting = Node(node.machine, tmp_path, once=True, accept_degraded=True)
    accepting.cluster.baseline = node.cluster.baseline
    accepting.faults = node.faults
    assert accepting.agent.sync()
    assert accepting.cluster.writes[-1].labels.known[label_keys.STATE] == "ok"
    node.cluster.baseline = accepting.cluster.baseline
    node.live(120)
    assert node.cluster.writes[-1].labels.known[label_keys.STATE] == "ok"


@pytest.mark.regression
def test_a_retry_that_falls_due_during_a_slow_probe_is_not_put_off_for_an_interval(node: Node) -> None:
    def slow(raw: RawNode) -> RawNode:
        node.seconds += 5  # as when NVML waits for an event at that moment
        return raw

    node.live(120)
    node.cluster.tamper()
    node.agent.node_changed()
    node.seconds += 10
    node.cluster.fails, node.change = ApiError(401, "Unauthorized", "Unauthorized"), slow
    assert not node.agent.sync()
    assert node.agent.seconds_until_sync() <= 5


@pytest.mark.regression
def test_policies_that_come_into_force_after_the_first_write_make_the_agent_ready_within_seconds(node: Node) -> None:
    node.confined = False
    node.agent.sync()
    node.seconds += node.agent.seconds_until_sync()
    node.agent.sync()
    assert "do not confine" in node.agent.ready()
    node.confined = True
    assert node.agent.seconds_until_sync() <= 5
    node.seconds += node.agent.seconds_until_sync()
    node.agent.sync()
    assert node.agent.ready() == ""
    assert node.agent.seconds_until_sync() > 50


@pytest.mark.regression
def test_a_change_right_after_a_probe_is_repaired_within_four_seconds(node: Node) -> None:
    for _edit in range(20):
        node.live(3600)
        node.agent.sync()
        node.cluster.tamper()
        node.agent.node_changed()
        writes, pause = len(node.cluster.writes), node.agent.seconds_until_sync()
        assert pause <= 4
        node.seconds += pause
        node.agent.sync()
        assert len(node.cluster.writes) == writes + 1


class Moment(msgspec.Struct, forbid_unknown_fields=True):
    """What happens to a node (None: it stays as it is), and how it looks after a while; `*` stands for any words."""

    anew: bool = False
    """A new container with a new agent."""
    faults: dict[str, Any] | None = None
    """As in a fault file."""
    failure: str | None = None
    fails: str | list[Any] | None = None
    """What the API server answers; nothing: it takes what it gets again."""
    confined: bool | None = None
    container: dict[str, str] | None = None
    module: bool | None = None
    """Whether the kernel module is loaded."""
    bus: bool | None = None
    """Whether sysfs shows one."""
    driver: str = ""
    """Of the GPUs on the bus; NVML does not see those of vfio-pci."""
    forgotten: bool = False
    """Whether the baseline is lost."""
    clock: float = 0.0
    """How far the one on the wall is off."""
    tampered: bool = False
    """Whether somebody changes a label; where it is `fought` over, again after each write."""
    fought: bool = False
    live: float = 0.0
    later: float = 0.0
    """Seconds in which the loop does not turn."""
    labels: dict[str, str] = {}
    all: dict[str, str] | None = None
    """All labels."""
    events: list[str] | None = None
    """Since the moment before."""
    note: str = "*"
    """Of the last one."""
    writes: int | None = None
    counted: dict[str, tuple[float, float]] = {}
    """Least and most reads, writes, refused ones and probes since the moment before."""
    problem: str = "*"
    healthy: str = "*"
    ready: str = "*"
    metrics: dict[str, float] = {}


class Life(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    moments: list[Moment]
    profile: str = "t4-1"
    gpus: bool = True


def happens(node: Node, moment: Moment) -> None:
    if moment.faults is not None:
        node.faults = msgspec.convert(moment.faults, Faults)
    node.failure = node.failure if moment.failure is None else moment.failure
    node.confined = node.confined if moment.confined is None else moment.confined
    node.container = node.container if moment.container is None else moment.container
    if moment.fails is not None:
        node.cluster.fails = error_of(moment.fails) if moment.fails else None
    node.runtime.wall_offset = moment.clock
    node.cluster.opponent = node.agent.node_changed if moment.fought else None
    if moment.tampered:
        node.cluster.tamper()
        node.agent.node_changed()
    if moment.module is not None:
        place = node.folder / "sys" / "module" / "nvidia"
        node.probe()  # writes the device tree
        place.mkdir(parents=True, exist_ok=True)
        if not moment.module:
            place.rmdir()
    if moment.bus is False:
        node.change = lambda raw: raw._replace(gpu_functions=(), switch_functions=(), bus_visible=False)
    if moment.driver:
        node.change = lambda raw: raw._replace(
            gpus=() if moment.driver == "vfio-pci" else raw.gpus,
            gpu_functions=tuple(function._replace(driver=moment.driver) for function in raw.gpu_functions),
        )
    if moment.forgotten:
        node.cluster.baseline = None
    if moment.live:
        node.live(moment.live)
    node.seconds += moment.later


def counts(node: Node) -> dict[str, float]:
    refused = node.metric("publishes_total", outcome="forbidden") or 0
    return {"reads": node.cluster.reads, "writes": len(node.cluster.writes), "refused": refused, "probes": node.probes}


@pytest.mark.regression
@each_row("lives.yaml", Life, ids=lambda row: row.case)
def test_a_life(row: Life, tmp_path: Path) -> None:
    machine = load_profile(row.profile)
    node = Node(machine if row.gpus else replace(machine, gpus=()), tmp_path)
    for number, moment in enumerate(row.moments):
        node = Node(node.machine, tmp_path) if moment.anew else node
        seen, before = len(node.cluster.events), counts(node)
        happens(node, moment)
        events = node.cluster.events[seen:]
        assert moment.events in (None, [f"{event.kind} {event.reason}" for event in events]), number
        assert says(events[-1].note if events else "", moment.note), number
        assert moment.all in (None, node.labels), number
        assert [key for key, value in moment.labels.items() if not says(node.labels[key], value)] == [], number
        assert moment.writes in (None, len(node.cluster.writes)), number
        news = {name: count - before[name] for name, count in counts(node).items()}
        assert [name for name, (least, most) in moment.counted.items() if not least <= news[name] <= most] == [], news
        assert says(node.cluster.writes[-1].problem if node.cluster.writes else "", moment.problem), number
        assert says(node.agent.healthy(), moment.healthy), number
        assert says(node.agent.ready(), moment.ready), number
        assert {name: node.metric(name) for name in moment.metrics} == moment.metrics, number


H200 = "dgx-h200"


class Metric(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: float
    labels: dict[str, str]


class Trouble(msgspec.Struct, forbid_unknown_fields=True):
    """One way to be in trouble, and how it has to look from outside."""

    case: str
    log: str
    faults: dict[str, Any] = {}
    """As in a fault file."""
    failure: tuple[str, str] = ("", "")
    """Reason and message of a probe that does not come to an end."""
    profile: str = H200
    follow: dict[str, str] = {}
    """Labels that change, beside `state`; all others stand."""
    state: str = "unknown"
    reason: str = ""
    """Under which the failed probes are counted."""
    metrics: tuple[Metric, ...] = ()


@each_row("troubles.yaml", Trouble, ids=lambda row: row.case)
def test_faults_change_only_their_labels_are_reported_and_heal(
    row: Trouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agent")
    node = Node(load_profile(row.profile), tmp_path)
    node.live(120)
    before = node.labels
    assert before["state"] == "ok"
    caplog.clear()
    node.faults = msgspec.convert(row.faults, Faults)
    node.reason, node.failure = row.failure
    node.live(300)
    wanted = {**before, **row.follow, "state": row.state}
    assert {key: "*" if wanted.get(key) == "*" else value for key, value in node.labels.items()} == wanted
    lines = [record.message for record in caplog.records if row.log in record.message]
    assert len([line for line in lines if not line.startswith(("NodeDegraded", "TopologyUnknown"))]) == 1, lines
    kind = {"unknown": "TopologyUnknown", "degraded": "NodeDegraded"}[row.state]
    assert kind in [event.reason for event in node.cluster.events]
    assert node.metric("node_state", state=row.state) == 1
    if row.reason:
        assert node.metric("probe_failures_total", reason=row.reason) == pytest.approx(5, abs=1)
        assert node.metric("last_successful_probe_timestamp_seconds") == pytest.approx(120, abs=61)
    for metric in row.metrics:
        assert node.metric(metric.name, **metric.labels) == metric.value, metric
    node.faults, node.failure = Faults(), ""
    node.live(120)
    assert node.labels == before
    assert node.cluster.events[-1].reason in ("NodeHealthy", "NVLinkDomainChanged")
    assert "NodeHealthy" in [event.reason for event in node.cluster.events]


def test_mig_reconfigured_changes_no_label(tmp_path: Path) -> None:
    node = Node(load_profile(H200), tmp_path)
    node.live(120)
    before = node.labels
    first, *others = node.machine.gpus
    node.machine = replace(node.machine, gpus=(replace(first, mig=("MIG-a", "MIG-b")), *others))
    node.live(120)
    assert node.labels == before
    assert node.metric("gpu_mig_devices", gpu=first.function.address) == 2


@each_case("tables/agent.yaml")
def test_api_server_errors_are_one_log_line_however_long_they_last(
    error: str | list[Any], outcome: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agent")
    node = Node(load_profile("rtx3090-2-nvlink"), tmp_path)
    node.live(120)
    caplog.clear()
    node.cluster.fails = error_of(error)
    node.faults = Faults(links_down={1: frozenset({2})})
    node.live(3600)
    lines = [record.message for record in caplog.records if "cannot publish on node n1" in record.message]
    assert len(lines) == 1
    assert words in lines[0]
    assert (node.metric("publishes_total", outcome=outcome) or 0) > 1
    assert node.agent.healthy() == ""  # a restart would not help
    node.cluster.fails = None
    node.live(700)
    assert node.labels["state"] == "degraded"
    assert "node n1 is up to date again" in [record.message for record in caplog.records]


def test_at_rest_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agent")
    node = Node(load_profile(H200), tmp_path)
    node.live(120)
    caplog.clear()
    node.live(3600)
    assert caplog.records == []


def test_a_change_while_the_api_server_refuses_is_no_reason_to_ask_it_again(node: Node) -> None:
    node.live(95)
    node.cluster.fails = ApiError(403, "Forbidden", "no")
    node.faults = Faults(links_down={1: frozenset({2})})
    node.live(1800)
    before = node.metric("publishes_total", outcome="forbidden") or 0
    for _ in range(100):
        node.agent.node_changed()
        node.live(6)
    assert (node.metric("publishes_total", outcome="forbidden") or 0) - before <= 2
