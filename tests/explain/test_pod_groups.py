"""Whether a PodGroup of KAI's has room: by its pods, in the cluster or in the same files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.explain.waiting import RACK, Object, busy, named, nodes, pod, pod_spec, scheduler_resources
from tests.support.saved import saved
from tests.support.tables import each_case
from toposcope.cli.main import main

SUB_GROUP = "kai.scheduler/subgroup-name"
ONE_RACK = {"topology": "cluster", "requiredTopologyLevel": RACK}


def group(**spec: Any) -> Object:
    return named("scheduling.run.ai/v2alpha2", "PodGroup", "pg", {"queue": "q", **spec})


def member(name: str, gpus: int = 8, subgroup: str = "", node: str = "", **spec: Any) -> Object:
    labels = {SUB_GROUP: subgroup} if subgroup else {}
    found = pod(name, node, gpus=gpus, annotations={"pod-group-name": "pg"}, labels=labels)
    return {**found, "spec": {**found["spec"], **spec}}


def job(pods: int, *, skip: bool = True) -> Object:
    template = {"metadata": {"annotations": {"pod-group-name": "pg"}}, "spec": pod_spec()}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return named(
        "batch/v1", "Job", "train", spec, annotations={"kai.scheduler/skip-podgrouper": "true"} if skip else {}
    )


def checked(
    folder: Path, capsys: pytest.CaptureFixture[str], cluster: list[Object], *documents: Object
) -> tuple[str | None, str]:
    """The verdict on the PodGroup, the first of the documents, and the notes."""
    (folder / "cluster.json").write_text(saved([*nodes(), *scheduler_resources(), *cluster]))
    (folder / "work.json").write_text(saved(list(documents)))
    main(["check", "-f", str(folder / "work.json"), "--from", str(folder / "cluster.json"), "-o", "json"])
    found = json.loads(capsys.readouterr().out)["workloads"][0]
    return found["verdict"] and found["verdict"]["kind"], "; ".join(found["notes"])


@each_case("tables/explain.yaml")
def test_pods_in_the_cluster_count(
    least: int, kind: str, note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [member("a"), member("b")]
    whole = group(minMember=least, topologyConstraint=ONE_RACK)
    assert checked(tmp_path, capsys, pods, whole) == (kind, note)


def test_pods_of_workloads_in_the_same_files_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = group(minMember=4, topologyConstraint=ONE_RACK)
    others = busy("h200-1", "h200-5")
    assert checked(tmp_path, capsys, others, whole, job(4)) == ("full", "")
    assert checked(tmp_path, capsys, others[:1], whole, job(4)) == ("fits", "")
    kind, note = checked(tmp_path, capsys, others[:1], whole, job(4, skip=False))
    assert (kind, "no pods of the PodGroup are known" in note) == (None, True)


def test_sub_groups_count_their_own_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subgroups = [
        {"name": "a", "minMember": 4, "topologyConstraint": ONE_RACK},
        {"name": "b", "minMember": 4, "topologyConstraint": ONE_RACK},
    ]
    whole = group(subGroups=subgroups)
    pods = [member(f"{name}-{i}", subgroup=name) for name in "ab" for i in range(4)]
    assert checked(tmp_path, capsys, pods, whole) == ("fits", "")
    kind, _ = checked(tmp_path, capsys, [*pods, *busy("h200-1")], whole)
    assert kind != "fits"
    kind, note = checked(tmp_path, capsys, pods[:4], whole)
    assert (kind, note.partition(":")[0]) == (
        None, "no pods of sub-group b are known, so what they request is not known",
    )  # fmt: skip


def test_node_selectors_of_its_pods_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rack = [member("a", nodeSelector={RACK: "rack-9"})]
    assert checked(tmp_path, capsys, rack, group(minMember=1))[0] == "never"
    assert checked(tmp_path, capsys, [member("a", nodeSelector={RACK: "rack-3"})], group(minMember=1))[0] == "fits"


def test_pods_of_several_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [member("leader", 1), member("a"), member("b")]
    assert checked(tmp_path, capsys, pods, group(minMember=3, topologyConstraint=ONE_RACK)) == ("fits", "")
    kind, note = checked(tmp_path, capsys, pods, group(minMember=2))
    assert kind is None
    assert note.startswith("the PodGroup needs 2 pods and 3 of several sizes are known: which of them count")


def test_a_waiting_pod_group_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    whole = group(minMember=4, topologyConstraint=ONE_RACK)
    pods = [member(f"p{i}") for i in range(4)]
    file.write_text(saved([*nodes(), *scheduler_resources(), whole, *pods, *busy("h200-1", "h200-5")]))
    assert main(["explain", "podgroup/pg", "-n", "ml", "--from", str(file)]) == 1
    out = capsys.readouterr().out
    assert "Why: does not fit now: pg needs 32 GPUs in one rack, largest has 24" in out
    file.write_text(saved([*nodes(), *scheduler_resources(), whole]))
    main(["explain", "podgroup/pg", "-n", "ml", "--from", str(file), "-o", "json"])
    [room] = [step for step in json.loads(capsys.readouterr().out)["steps"] if step["step"] == "room"]
    assert room["outcome"] == "unknown"
    assert "no pods of the PodGroup are known" in room["message"]
