"""Faults change only their own labels, are reported in log, Events and metrics, and heal."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.simulated_node import SimulatedNode
from toposcope.simulator.faults import CallFault, MachineFaults

MULTI_NODE_NVLINK = "gb200-nvl72-tray"


class Watched:
    """A node that was well for two minutes, and what is different since."""

    def __init__(self, node: SimulatedNode, caplog: pytest.LogCaptureFixture) -> None:
        self.node = node
        self._caplog = caplog
        node.run(minutes=2)
        self.labels_before = node.labels
        assert node.state == "ok"
        caplog.clear()

    def breaks(self, faults: MachineFaults) -> None:
        """Five minutes with these faults."""
        self.node.faults = faults
        self.node.run(minutes=5)

    def changed_labels(self) -> dict[str, str | None]:
        """Labels of other values than before; None for those that are gone."""
        labels = self.node.labels
        changed: dict[str, str | None] = {}
        for key in self.labels_before.keys() | labels.keys():
            value = labels.get(key)
            if value != self.labels_before.get(key):
                changed[key] = value
        return changed

    def assert_reported(self, words: str, event: str) -> None:
        """One line of the log says so, beside the Event's own, and the metric of the state agrees."""
        lines = []
        for record in self._caplog.records:
            is_of_an_event = record.message.startswith(("NodeDegraded", "TopologyUnknown"))
            if words in record.message and not is_of_an_event:
                lines.append(record.message)
        assert len(lines) == 1, lines
        assert event in self.event_reasons()
        state = str(self.node.state)
        assert self.node.metric("node_state", state=state) == 1

    def event_reasons(self) -> list[str]:
        """Reasons of all Events so far."""
        return [event.reason for event in self.node.api.events]

    def assert_probes_counted_as(self, reason: str) -> None:
        """The probes since it broke failed for this reason."""
        failures = self.node.metric("probe_failures_total", reason=reason)
        last_success = self.node.metric("last_successful_probe_timestamp_seconds")
        assert failures == pytest.approx(5, abs=1)
        assert last_success == pytest.approx(120, abs=61)

    def assert_heals(self) -> None:
        """Without faults all is as it was."""
        self.node.heals()
        self.node.run(minutes=2)
        assert self.node.labels == self.labels_before
        reasons = self.event_reasons()
        assert reasons[-1] in ("NodeHealthy", "NVLinkDomainChanged")
        assert "NodeHealthy" in reasons


Watch = Callable[[str], Watched]


@pytest.fixture
def watch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Watch:
    caplog.set_level(logging.INFO, "agent")
    return lambda profile: Watched(SimulatedNode.of(profile, tmp_path), caplog)


# NVML does not answer


@pytest.mark.parametrize(
    ("nvml_error", "advice"),
    [
        pytest.param(12, "libnvidia-ml", id="library-not-found"),
        pytest.param(9, "modprobe nvidia", id="driver-not-loaded"),
        pytest.param(18, "reboot the node", id="version-mismatch"),
        pytest.param(4, "permission", id="no-permission"),
    ],
)
def test_nvml_that_does_not_start_leaves_state_unknown(watch: Watch, nvml_error: int, advice: str) -> None:
    h200 = watch("dgx-h200")
    h200.breaks(MachineFaults(init_error=nvml_error))
    assert h200.changed_labels() == {"state": "unknown"}
    h200.assert_reported(advice, "TopologyUnknown")
    h200.assert_probes_counted_as("nvml-unavailable")
    h200.assert_heals()


@pytest.mark.parametrize(
    ("reason", "message", "words"),
    [
        pytest.param("hang", "no answer within 60 s in step: nvmlInit", "nvmlInit", id="hang"),
        pytest.param("crash", "was killed by SIGSEGV in step: x", "SIGSEGV", id="crash"),
        pytest.param("garbage", "the probe's answer is malformed", "malformed", id="garbage"),
    ],
)
def test_failing_probe_leaves_state_unknown(watch: Watch, reason: str, message: str, words: str) -> None:
    h200 = watch("dgx-h200")
    h200.node.probe_fails(message, reason)
    h200.node.run(minutes=5)
    assert h200.changed_labels() == {"state": "unknown"}
    h200.assert_reported(words, "TopologyUnknown")
    h200.assert_probes_counted_as(reason)
    h200.assert_heals()


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(MachineFaults(lost=frozenset(range(8))), id="all-lost"),
        pytest.param(MachineFaults(vanished=frozenset(range(8))), id="all-vanished"),
    ],
)
def test_node_whose_gpus_all_left_nvml_has_no_devices(watch: Watch, faults: MachineFaults) -> None:
    h200 = watch("dgx-h200")
    h200.breaks(faults)
    assert h200.changed_labels() == {"state": "unknown"}
    h200.assert_reported("0000:1d:00.0", "TopologyUnknown")
    h200.assert_probes_counted_as("no-devices")
    h200.assert_heals()


def test_nvml_that_counts_no_gpus_any_more_is_unavailable(watch: Watch) -> None:
    h200 = watch("dgx-h200")
    uncounted = CallFault(call="nvmlDeviceGetCount", error=999)
    h200.breaks(MachineFaults(calls=(uncounted,)))
    assert h200.changed_labels() == {"state": "unknown"}
    h200.assert_reported("device nodes", "TopologyUnknown")
    h200.assert_probes_counted_as("nvml-unavailable")
    h200.assert_heals()


# GPUs and links


def test_lost_gpu_is_reported_and_counted(watch: Watch) -> None:
    h200 = watch("dgx-h200")
    h200.breaks(MachineFaults(lost=frozenset({0})))
    changed = h200.changed_labels()
    assert changed.pop("shape")
    assert changed == {
        "state": "degraded",
        "gpus": "7",
        "gpus-per-numa": "3-4",
        "nvlink-domain-size": "7",
    }
    h200.assert_reported("GPU 0000:1d:00.0 is on the PCI bus but not in NVML", "NodeDegraded")
    assert h200.node.metric("gpus_expected") == 8
    assert h200.node.metric("gpus_seen") == 7
    h200.assert_heals()


def test_dead_link_is_reported_and_counted(watch: Watch) -> None:
    h200 = watch("dgx-h200")
    h200.breaks(MachineFaults(links_down={0: frozenset({4})}))
    changed = h200.changed_labels()
    assert changed.pop("shape")
    assert changed == {
        "state": "degraded",
        "nvlink-links": "17",
        "nvlink-bandwidth": "451",
    }
    h200.assert_reported("GPU 0: 17 of 18 NVLinks active", "NodeDegraded")
    assert h200.node.metric("gpu_nvlinks_active", gpu="0000:1d:00.0") == 17
    assert h200.node.metric("gpu_nvlinks_expected", gpu="0000:1d:00.0") == 18
    h200.assert_heals()


# The fabric of multi-node NVLink


def on_every_gpu(state: int) -> MachineFaults:
    """Each GPU of a tray answers this state of the fabric."""
    return MachineFaults(
        fabric={
            0: {"state": state},
            1: {"state": state},
            2: {"state": state},
            3: {"state": state},
        }
    )


def test_registering_tray_is_in_progress(watch: Watch) -> None:
    tray = watch(MULTI_NODE_NVLINK)
    tray.breaks(on_every_gpu(state=2))
    assert tray.changed_labels() == {"state": "unknown", "fabric": "in-progress"}
    tray.assert_reported("GPU 3: still registering", "TopologyUnknown")
    assert tray.node.metric("fabric_state", state="in-progress") == 1
    assert tray.node.metric("gpu_fabric_state", gpu="0008:01:00.0", state="in-progress") == 1
    tray.assert_heals()


def test_half_registered_tray_is_in_progress_and_says_which_gpu(watch: Watch) -> None:
    tray = watch(MULTI_NODE_NVLINK)
    tray.breaks(MachineFaults(fabric={1: {"state": 1}}))
    assert tray.changed_labels() == {"state": "unknown", "fabric": "in-progress"}
    tray.assert_reported("GPU 1: still registering", "TopologyUnknown")
    assert tray.node.metric("gpu_fabric_state", gpu="0008:01:00.0", state="completed") == 1
    assert tray.node.metric("gpu_fabric_state", gpu="0009:01:00.0", state="not-started") == 1
    tray.assert_heals()


def test_gpus_in_two_cliques_make_the_fabric_fail(watch: Watch) -> None:
    tray = watch(MULTI_NODE_NVLINK)
    tray.breaks(MachineFaults(fabric={1: {"clique": 7}}))
    assert tray.changed_labels() == {
        "state": "degraded",
        "fabric": "failed",
        "nvlink-domain": "n1",
    }
    cliques = "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766, 6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.7"
    tray.assert_reported(f"in 2 fabric cliques: {cliques}", "NodeDegraded")
    assert tray.node.metric("fabric_state", state="failed") == 1
    tray.assert_heals()


def test_failed_registration_makes_the_fabric_fail(watch: Watch) -> None:
    tray = watch(MULTI_NODE_NVLINK)
    tray.breaks(MachineFaults(fabric={2: {"status": 999}}))
    assert tray.changed_labels() == {
        "state": "degraded",
        "fabric": "failed",
        "nvlink-domain": "n1",
    }
    tray.assert_reported("GPU 2: fabric registration ended with NVML status 999", "NodeDegraded")
    assert tray.node.metric("gpu_fabric_state", gpu="0018:01:00.0", state="failed") == 1
    tray.assert_heals()


def test_fabric_that_is_down_names_the_tray(watch: Watch) -> None:
    tray = watch(MULTI_NODE_NVLINK)
    tray.breaks(on_every_gpu(state=0))
    assert tray.changed_labels() == {
        "state": "degraded",
        "fabric": "failed",
        "nvlink-domain": "n1",
    }
    tray.assert_reported("NVML says that there is no NVLink fabric, in slot 1 of chassis 1821025193108", "NodeDegraded")
    assert tray.node.metric("fabric_state", state="failed") == 1
    tray.assert_heals()


def test_bad_fabric_health_is_reported_and_counted(watch: Watch) -> None:
    tray = watch(MULTI_NODE_NVLINK)
    tray.breaks(MachineFaults(fabric={1: {"health_mask": 1}}))
    assert tray.changed_labels() == {"state": "degraded"}
    tray.assert_reported("GPU 1: fabric health: degraded bandwidth", "NodeDegraded")
    assert tray.node.metric("gpu_fabric_health_bad", gpu="0009:01:00.0", bit="degraded_bandwidth") == 1
    tray.assert_heals()
