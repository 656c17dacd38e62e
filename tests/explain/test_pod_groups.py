"""Why a PodGroup of KAI's waits; whether it has room, and by which pods: tests/fixtures/placement/pod_groups.yaml."""

import json
from pathlib import Path

import pytest

from tests.explain.waiting import RACK, busy, named, nodes, pod, scheduler_resources
from tests.support.saved import saved
from toposcope.cli.main import main


def test_a_waiting_pod_group_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    one_rack = {"topology": "cluster", "requiredTopologyLevel": RACK}
    spec = {"queue": "q", "minMember": 4, "topologyConstraint": one_rack}
    cluster = [*nodes(), *scheduler_resources(), named("scheduling.run.ai/v2alpha2", "PodGroup", "pg", spec)]
    pods = [pod(f"p{i}", annotations={"pod-group-name": "pg"}) for i in range(4)]
    file.write_text(saved([*cluster, *pods, *busy("h200-1", "h200-5")]))
    assert main(["explain", "podgroup/pg", "-n", "ml", "--from", str(file)]) == 1
    out = capsys.readouterr().out
    assert "Why: does not fit now: pg needs 32 GPUs in one rack, largest has 24" in out
    file.write_text(saved(cluster))
    main(["explain", "podgroup/pg", "-n", "ml", "--from", str(file), "-o", "json"])
    [room] = [step for step in json.loads(capsys.readouterr().out)["steps"] if step["step"] == "room"]
    assert room["outcome"] == "unknown"
    assert "no pods of the PodGroup are known" in room["message"]
