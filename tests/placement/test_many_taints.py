"""What would fit with tolerations is worked out for a bounded number of taints, those that keep out the most nodes."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.saved import saved
from toposcope.placement.check import Checker
from toposcope.placement.tolerating import tolerate
from toposcope.snapshot.files import load_files

REQUESTS = {"nvidia.com/gpu": "8"}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "w"},
    "spec": {"parallelism": 1, "template": {"spec": {"containers": [{"resources": {"requests": REQUESTS}}]}}},
}


def node(name: str, taint: str, gpus: str = "8") -> dict[str, Any]:
    metadata = {"name": name, "labels": {"gpu.topology/gpus": "8", "kubernetes.io/hostname": name}}
    status = {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {"taints": [{"key": taint, "effect": "NoSchedule"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def answer(nodes: list[dict[str, Any]], tmp_path: Path) -> str:
    (tmp_path / "cluster.json").write_text(saved(nodes))
    (found,) = Checker(load_files([str(tmp_path / "cluster.json")])).check(JOB)
    return str(found.verdict)


@pytest.mark.parametrize("count", [33, 400])
def test_few_of_many_taints_are_tried(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = 0

    def counted(workload: Any, verdict: Any, nodes: Any, of: Any) -> Any:
        def one(other: Any) -> Any:
            nonlocal verdicts
            verdicts += 1
            return of(other)

        return tolerate(workload, verdict, nodes, one)

    monkeypatch.setattr("toposcope.placement.deciding.tolerate", counted)
    answer([node(f"n{number}", f"k{number}", "0") for number in range(count)], tmp_path)
    assert 0 < verdicts <= 34


def test_taint_of_most_nodes_is_tried_first(tmp_path: Path) -> None:
    nodes = [node(f"n{number}", f"k{number}", "0") for number in range(40)]
    nodes += [node(f"m{number}", "common") for number in range(2)]
    assert "common" in answer(nodes, tmp_path)
