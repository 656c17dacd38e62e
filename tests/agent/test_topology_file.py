"""The document about the agent's own node, and the file that keeps it for the node endpoint."""

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.kube.scripted import ScriptedServer, chunked
from tests.support.runtime import ManualRuntime, WatchRuntime
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.node_watch import NodeWatch
from toposcope.agent.options import AgentOptions
from toposcope.agent.publish import NodePublisher
from toposcope.agent.run import _topology_file
from toposcope.agent.topology_document import topology_document
from toposcope.agent.topology_file import PLAN_SECONDS, RETRY_SECONDS, TopologyFile
from toposcope.api.label_keys import GPU_PRODUCT, MATRIX, NVLINK_DOMAIN, RAILS, STATE
from toposcope.api.levels import Level
from toposcope.integrations.node_plan import NodePlan, PlannedTopology

RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
PLAN = NodePlan((PlannedTopology("cluster", (), (Level("rack", RACK), Level("host", HOST))),))
MATRIX_TEXT = (
    '{"version":1,"gpus":[{"index":0,"pci":"0000:1b:00.0"}],'
    '"nics":[{"name":"mlx5_0","pci":"0000:18:00.0","numa":0},{"name":"mlx5_0","pci":"0000:19:00.0","dd":true}],'
    '"matrix":["X","PXB X"],"reasons":[]}'
)
METADATA: dict[str, Any] = {
    "name": "n1",
    "uid": "u",
    "labels": {
        RACK: "r2",
        HOST: "n1",
        NVLINK_DOMAIN: "n1",
        STATE: "ok",
        GPU_PRODUCT: "NVIDIA-H200",
    },
    "annotations": {
        MATRIX: MATRIX_TEXT,
        RAILS: '[{"nic":"mlx5_0","switch":"leaf-1","id":"mac:1"}]',
    },
}


def document(metadata: dict[str, Any] = METADATA, plan: NodePlan = PLAN) -> dict[str, Any]:
    """What the document of the node says."""
    content: dict[str, Any] = json.loads(topology_document("n1", metadata, plan))
    return content


def test_document_says_where_the_node_is_and_what_it_has() -> None:
    path = [
        {"level": "rack", "key": RACK, "value": "r2"},
        {"level": "host", "key": HOST, "value": "n1"},
    ]
    in_cluster = {"topology": "cluster", "path": path, "complete": True}
    assert document() == {
        "version": 1,
        "node": "n1",
        **in_cluster,
        "topologies": [in_cluster],
        "nvlinkDomain": "n1",
        "state": "ok",
        "gpus": [
            {
                "index": 0,
                "uuid": None,
                "pci": "0000:1b:00.0",
                "numa": None,
                "product": "NVIDIA-H200",
            }
        ],
        "nics": [
            {
                "name": "mlx5_0",
                "pci": "0000:18:00.0",
                "numa": 0,
                "switch": None,
                "port": None,
                "rail": 0,
            }
        ],
        "matrix": json.loads(MATRIX_TEXT),
    }


@pytest.mark.parametrize("rails", ["", "[", '{"nic": "mlx5_0"}'], ids=["empty", "cut", "no-list"])
def test_rail_is_unknown_where_the_annotation_is_malformed(rails: str) -> None:
    annotations = {**METADATA["annotations"], RAILS: rails}
    (nic,) = document({**METADATA, "annotations": annotations})["nics"]
    assert nic["name"] == "mlx5_0"
    assert nic["rail"] is None


def test_document_of_an_unknown_node_says_null() -> None:
    assert document({"name": "n1"}, NodePlan()) == {
        "version": 1,
        "node": "n1",
        "topology": None,
        "path": [],
        "complete": False,
        "topologies": [],
        "nvlinkDomain": None,
        "state": None,
        "gpus": None,
        "nics": None,
        "matrix": None,
    }


@pytest.mark.parametrize("text", ["{", "[]", "7", "[" * 100_000], ids=lambda text: text[:4])
def test_malformed_annotations_are_unknown(text: str) -> None:
    malformed = {**METADATA, "annotations": {MATRIX: text, RAILS: text}}
    content = document(malformed)
    assert content["matrix"] is None
    assert content["gpus"] is None
    assert content["topology"] == "cluster"


@pytest.mark.parametrize("devices", ["7", '"x"', "[7,null]", "null"])
def test_malformed_devices_are_left_out(devices: str) -> None:
    annotations = {MATRIX: f'{{"gpus":{devices},"nics":{devices}}}'}
    content = document({**METADATA, "annotations": annotations})
    assert content["gpus"] == []
    assert content["nics"] == []


# The file.


def kept_file(folder: Path, runtime: ManualRuntime) -> TopologyFile:
    return TopologyFile(folder / "topology.json", "n1", runtime=runtime)


def test_file_is_written_only_when_its_content_changes(tmp_path: Path) -> None:
    kept = kept_file(tmp_path, ManualRuntime())
    kept.follow(PLAN)
    assert kept.keep() is None
    assert list(tmp_path.iterdir()) == []

    kept.node_seen(METADATA)
    assert kept.keep() is None
    file = tmp_path / "topology.json"
    assert file.read_text() == topology_document("n1", METADATA, PLAN)
    assert list(tmp_path.iterdir()) == [file]

    inode = file.stat().st_ino
    kept.node_seen({**METADATA, "resourceVersion": "2"})
    kept.keep()
    assert file.stat().st_ino == inode

    moved = {**METADATA, "labels": {RACK: "r3", HOST: "n1"}}
    kept.node_seen(moved)
    kept.keep()
    assert file.read_text() == topology_document("n1", moved, PLAN)


def test_file_waits_for_the_plan_before_it_says_that_there_is_no_path(tmp_path: Path) -> None:
    runtime = ManualRuntime()
    kept = kept_file(tmp_path, runtime)
    kept.node_seen(METADATA)
    assert kept.keep() == PLAN_SECONDS
    assert list(tmp_path.iterdir()) == []

    runtime.seconds += PLAN_SECONDS
    assert kept.keep() is None
    content = json.loads((tmp_path / "topology.json").read_text())
    assert content["topology"] is None
    assert content["state"] == "ok"


def test_failed_write_is_logged_once_and_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agent")
    folder = tmp_path / "later"
    kept = kept_file(folder, ManualRuntime())
    kept.follow(PLAN)
    kept.node_seen(METADATA)
    assert kept.keep() == RETRY_SECONDS
    assert kept.keep() == RETRY_SECONDS
    file = folder / "topology.json"
    warning = f"--topology-file {file} cannot be written: No such file or directory; retried every 30 s"
    assert caplog.messages == [warning]

    folder.mkdir()
    assert kept.keep() is None
    assert file.read_text() == topology_document("n1", METADATA, PLAN)
    assert caplog.messages == [warning, f"{file} is up to date again"]


def test_full_disk_keeps_the_last_document(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = kept_file(tmp_path, ManualRuntime())
    kept.follow(PLAN)
    kept.node_seen(METADATA)
    kept.keep()
    new_file = tmp_path / ".topology.json.new"
    new_file.symlink_to("/dev/full")
    kept.node_seen({"name": "n1"})
    assert kept.keep() == RETRY_SECONDS
    assert "No space left on device" in caplog.text
    file = tmp_path / "topology.json"
    assert file.read_text() == topology_document("n1", METADATA, PLAN)
    assert list(tmp_path.iterdir()) == [file]


def test_watch_of_the_node_hands_on_its_metadata() -> None:
    seen: list[dict[str, Any]] = []
    event = json.dumps({"type": "ADDED", "object": {"metadata": METADATA}}).encode()
    with ScriptedServer([chunked(event + b"\n")]) as server:
        client = server.client()
        watch = NodeWatch(
            client,
            "n1",
            NodePublisher(client, "n1"),
            AgentMetrics(),
            lambda: None,
            on_metadata=seen.append,  # type: ignore[arg-type]
            runtime=WatchRuntime(1),
        )
        watch.run()
    assert seen == [METADATA]


def test_file_has_no_thread_before_the_watches_start(tmp_path: Path) -> None:
    """They start one; a second would replace the same file at the same time."""
    options = AgentOptions(node_name="n1", topology_file=tmp_path / "topology.json")
    assert _topology_file(options)
    assert "topology-file" not in [thread.name for thread in threading.enumerate()]
