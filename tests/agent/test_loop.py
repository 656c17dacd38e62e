"""The agent over hours of simulated time: what it publishes, requests and logs, at rest and in trouble."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.simulated_node import SimulatedNode
from toposcope.agent.raw import RawNode
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.simulator.faults import MachineFaults

DAY_SECONDS = 86_400
YEAR_SECONDS = 365 * DAY_SECONDS
FORBIDDEN = ApiError(403, "Forbidden", "no")
DENIED = [
    pytest.param(ApiError(401, "Refused", "no"), id="401"),
    pytest.param(ApiError(403, "Refused", "no"), id="403"),
]


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    """Two GPUs with a bridge of four NVLinks."""
    return SimulatedNode.of("rtx3090-2-nvlink", tmp_path)


@pytest.fixture
def single_gpu(tmp_path: Path) -> SimulatedNode:
    return SimulatedNode.of("t4-1", tmp_path)


@pytest.fixture
def tray(tmp_path: Path) -> SimulatedNode:
    """Four GPUs of a GB200 rack, in one clique."""
    return SimulatedNode.of("gb200-nvl72-tray", tmp_path)


@pytest.fixture
def h200(tmp_path: Path) -> SimulatedNode:
    return SimulatedNode.of("dgx-h200", tmp_path)


# State and Events


@pytest.mark.regression
def test_degraded_and_healed_node_gets_one_event_each(node: SimulatedNode) -> None:
    assert node.run(minutes=2).events == []

    node.loses_links(1, 2)
    activity = node.run(minutes=5)
    assert activity.events == ["Warning NodeDegraded"]
    assert "GPU 1: 3 of 4 NVLinks active" in activity.last_note
    assert node.state == "degraded"

    node.heals()
    assert node.run(minutes=5).events == ["Normal NodeHealthy"]
    assert node.state == "ok"


@pytest.mark.regression
def test_changed_clique_is_published_within_a_probe(tray: SimulatedNode) -> None:
    assert tray.run(minutes=2).events == []
    assert tray.labels["nvlink-domain"].endswith(".32766")

    tray.faults = MachineFaults(fabric={gpu: {"clique": 5} for gpu in range(4)})
    activity = tray.run(seconds=61)
    assert activity.events == ["Normal NVLinkDomainChanged"]
    assert ".32766 to " in activity.last_note
    assert activity.last_note.endswith(".5")
    assert tray.labels["nvlink-domain"].endswith(".5")


@pytest.mark.regression
def test_degraded_node_without_baseline_starts_a_new_one(node: SimulatedNode) -> None:
    node.run(minutes=2)
    assert node.state == "ok"
    node.loses_links(0)
    node.run(minutes=2)
    assert node.state == "degraded"

    node.loses_baseline()
    node.run(minutes=2)
    assert node.state == "ok"

    node.heals()
    node.run(minutes=2)
    assert node.state == "ok"
    node.loses_links(0)
    node.run(minutes=2)
    assert node.state == "degraded"


def test_accept_degraded_makes_the_present_state_the_baseline(node: SimulatedNode, tmp_path: Path) -> None:
    node.run(minutes=2)
    node.loses_links(0)
    node.run(minutes=2)
    assert node.state == "degraded"

    accepting = SimulatedNode(node.machine, tmp_path, once=True, accept_degraded=True)
    accepting.api.baseline = node.api.baseline
    accepting.faults = node.faults
    assert accepting.agent.sync()
    assert accepting.state == "ok"

    node.api.baseline = accepting.api.baseline
    node.run(minutes=2)
    assert node.state == "ok"


def test_reconfigured_mig_changes_no_label(h200: SimulatedNode) -> None:
    h200.run(minutes=2)
    labels_before = h200.labels
    first, *others = h200.machine.gpus
    h200.machine = replace(h200.machine, gpus=(replace(first, mig=("MIG-a", "MIG-b")), *others))
    h200.run(minutes=2)
    assert h200.labels == labels_before
    assert h200.metric("gpu_mig_devices", gpu=first.function.address) == 2


# Readiness and health


@pytest.mark.regression
def test_unconfined_agent_labels_its_node_and_is_not_ready(node: SimulatedNode) -> None:
    node.is_confined = False
    activity = node.run(seconds=200)
    assert node.writes == 1
    assert "the admission policies do not confine this program" in node.agent.ready()
    assert node.metric("confined") == 0
    assert activity.events == ["Warning Unconfined"]

    node.is_confined = True
    activity = node.run(minutes=2)
    assert node.agent.ready() == ""
    assert node.metric("confined") == 1
    assert activity.events == ["Normal Confined"]


@pytest.mark.regression
def test_policies_in_force_after_first_write_make_agent_ready_soon(node: SimulatedNode) -> None:
    node.is_confined = False
    node.agent.sync()
    node.seconds += node.agent.seconds_until_sync()
    node.agent.sync()
    assert "do not confine" in node.agent.ready()

    node.is_confined = True
    assert node.agent.seconds_until_sync() <= 5
    node.seconds += node.agent.seconds_until_sync()
    node.agent.sync()
    assert node.agent.ready() == ""
    assert node.agent.seconds_until_sync() > 50


@pytest.mark.regression
def test_hanging_loop_is_unhealthy_and_failing_probes_are_not(node: SimulatedNode) -> None:
    node.run(minutes=2)
    node.api.fails = UnreachableError("refused")
    node.probe_fails("no driver")
    node.run(minutes=20)
    assert node.agent.healthy() == ""

    node.seconds += 3600
    assert "no probe has finished for" in node.agent.healthy()


# Writes and reads at rest


def test_once_writes_without_waiting(tmp_path: Path) -> None:
    node = SimulatedNode.of("t4-1", tmp_path, once=True)
    assert node.agent.sync()
    assert node.writes == 1


@pytest.mark.regression
def test_hour_at_rest_is_one_write_and_a_read_every_ten_minutes(node: SimulatedNode) -> None:
    activity = node.run(hours=1)
    assert activity.writes == 1
    assert activity.reads <= 6
    assert activity.probes <= 63
    assert activity.events == []


def test_nothing_is_logged_at_rest(h200: SimulatedNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agent")
    h200.run(minutes=2)
    caplog.clear()
    h200.run(hours=1)
    assert caplog.records == []


@pytest.mark.regression
def test_first_write_is_spread(single_gpu: SimulatedNode) -> None:
    single_gpu.run(seconds=0.001)
    assert single_gpu.writes == 0
    assert single_gpu.agent.ready().endswith("have not been published yet")

    single_gpu.run(seconds=30)
    assert single_gpu.writes == 1
    assert single_gpu.agent.ready() == ""


@pytest.mark.regression
@pytest.mark.parametrize(
    "wall_offset", [pytest.param(-DAY_SECONDS, id="back-a-day"), pytest.param(YEAR_SECONDS, id="forward-a-year")]
)
def test_wall_clock_that_jumps_moves_no_timer(single_gpu: SimulatedNode, wall_offset: int) -> None:
    single_gpu.run(minutes=2)
    single_gpu.runtime.wall_offset = wall_offset
    activity = single_gpu.run(minutes=10)
    assert activity.reads <= 1
    assert activity.writes == 0
    assert 9 <= activity.probes <= 11
    assert single_gpu.agent.healthy() == ""


@pytest.mark.regression
def test_wall_clock_that_jumps_twice_moves_no_timer(single_gpu: SimulatedNode) -> None:
    single_gpu.run(minutes=2)
    single_gpu.runtime.wall_offset = -DAY_SECONDS
    single_gpu.run(minutes=10)
    single_gpu.runtime.wall_offset = YEAR_SECONDS
    activity = single_gpu.run(minutes=10)
    assert activity.reads <= 1
    assert activity.writes == 0
    assert 9 <= activity.probes <= 11
    assert single_gpu.agent.healthy() == ""


def test_link_that_flaps_is_at_most_a_write_a_minute(node: SimulatedNode) -> None:
    node.run(minutes=2)
    writes_before = node.writes
    for step in range(240):  # twenty minutes, an event each time
        node.heals()
        if step % 2:
            node.loses_links(0, step % 4)
        node.agent.sync()
        node.seconds += 5
    assert node.writes - writes_before <= 20


# What others change on the Node


def assert_repaired_within_five_seconds(node: SimulatedNode) -> None:
    """Whether the agent hears of it at once, or is busy for two or four seconds."""
    for busy_seconds in (0, 2, 4):
        node.is_tampered_with()
        node.seconds += busy_seconds
        assert node.run(seconds=5 - busy_seconds).writes == 1, f"busy for {busy_seconds} s"


@pytest.mark.regression
def test_change_by_others_is_repaired_within_five_seconds(node: SimulatedNode) -> None:
    node.run(minutes=22)
    assert_repaired_within_five_seconds(node)


@pytest.mark.slow
@pytest.mark.regression
def test_change_right_after_a_probe_is_repaired_within_four_seconds(node: SimulatedNode) -> None:
    for _edit in range(20):
        node.run(hours=1)
        node.agent.sync()
        node.is_tampered_with()
        writes_before = node.writes
        pause = node.agent.seconds_until_sync()
        assert pause <= 4
        node.seconds += pause
        node.agent.sync()
        assert node.writes == writes_before + 1


@pytest.mark.slow
@pytest.mark.regression
def test_writers_that_fight_calm_down_and_later_changes_are_repaired(node: SimulatedNode) -> None:
    node.run(seconds=95)
    node.api.after_write = node.agent.node_changed
    node.is_tampered_with()
    assert 7 <= node.run(hours=1).writes <= 24
    assert node.run(hours=24).writes <= 480

    node.api.after_write = None
    node.run(minutes=82)
    assert_repaired_within_five_seconds(node)


# The API server fails


@pytest.mark.regression
def test_api_server_down_for_an_hour_is_not_hammered(node: SimulatedNode) -> None:
    node.run(minutes=2)
    node.api.fails = UnreachableError("refused")
    node.loses_links(1, 2)
    assert node.run(hours=1).probes <= 120

    node.api.fails = None
    node.run(minutes=2)
    assert node.state == "degraded"


@pytest.mark.regression
def test_retry_after_is_honoured(single_gpu: SimulatedNode) -> None:
    single_gpu.api.fails = ApiError(429, "TooManyRequests", "slow down", 45)
    single_gpu.run(seconds=0.001)
    single_gpu.api.fails = None
    single_gpu.run(seconds=44.9)
    assert single_gpu.writes == 0

    single_gpu.run(minutes=2)
    assert single_gpu.writes == 1


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.parametrize("denied", DENIED)
def test_denial_that_passes_is_retried_soon_and_one_that_stays_rarely(node: SimulatedNode, denied: ApiError) -> None:
    """A token is renewed, or the server has read its roles; else every five to ten minutes, after the first few."""
    node.run(minutes=2)
    node.loses_links(1, 2)
    node.api.fails = denied
    activity = node.run(seconds=0.001)
    assert activity.refused == 1
    assert activity.writes == 0

    node.api.fails = None
    assert node.run(seconds=70).writes == 1

    node.api.fails = denied
    node.heals()
    assert 144 <= node.run(hours=24).refused <= 296


@pytest.mark.parametrize(
    ("error", "outcome", "words"),
    [
        pytest.param(UnreachableError("connection refused"), "failed", "connection refused", id="unreachable"),
        pytest.param(ApiError(500, "InternalError", "etcd is away"), "failed", "etcd is away", id="internal-error"),
        pytest.param(ApiError(429, "TooManyRequests", "slow down", 7), "failed", "slow down", id="too-many-requests"),
        pytest.param(ApiError(409, "Conflict", "changed meanwhile"), "conflict", "changed meanwhile", id="conflict"),
        pytest.param(ApiError(401, "Unauthorized", "Unauthorized"), "forbidden", "token", id="unauthorized"),
        pytest.param(ApiError(404, "NotFound", 'nodes "n1" not found'), "failed", "NODE_NAME", id="not-found"),
        pytest.param(ApiError(403, "Forbidden", "User cannot patch"), "forbidden", "refused by RBAC", id="rbac"),
        pytest.param(
            ApiError(403, "Forbidden", "ValidatingAdmissionPolicy 'x' denied request"),
            "forbidden",
            "AdmissionPolicies",
            id="admission-policy",
        ),
    ],
)
def test_api_error_is_one_log_line_however_long_it_lasts(
    node: SimulatedNode, error: KubeError, outcome: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agent")
    node.run(minutes=2)
    caplog.clear()

    node.api.fails = error
    node.loses_links(1, 2)
    node.run(hours=1)
    (line,) = [record.message for record in caplog.records if "cannot publish on node n1" in record.message]
    assert words in line
    assert (node.metric("publishes_total", outcome=outcome) or 0) > 1
    assert node.agent.healthy() == ""  # a restart would not help

    node.api.fails = None
    node.run(seconds=700)
    assert node.state == "degraded"
    assert "node n1 is up to date again" in [record.message for record in caplog.records]


def test_change_during_a_refusal_does_not_make_the_agent_ask_again(node: SimulatedNode) -> None:
    node.run(seconds=95)
    node.api.fails = FORBIDDEN
    node.loses_links(1, 2)
    node.run(minutes=30)

    refused = 0
    for _change in range(100):
        node.agent.node_changed()
        refused += node.run(seconds=6).refused
    assert refused <= 2


@pytest.mark.regression
def test_retry_due_during_a_slow_probe_is_not_put_off_for_an_interval(node: SimulatedNode) -> None:
    def slow(raw: RawNode) -> RawNode:
        node.seconds += 5  # as when NVML waits for an event at that moment
        return raw

    node.run(minutes=2)
    node.is_tampered_with()
    node.seconds += 10
    node.api.fails = ApiError(401, "Unauthorized", "Unauthorized")
    node.change = slow
    assert not node.agent.sync()
    assert node.agent.seconds_until_sync() <= 5
