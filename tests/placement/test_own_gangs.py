"""What `check` says of kube-scheduler's own gangs; tests/schedulers holds it to the scheduler."""

import json
from pathlib import Path
from typing import Any

import pytest

from toposcope.placement.check import Checker
from toposcope.placement.sentences import answer
from toposcope.snapshot.files import load_files

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
RACK, ZONE = "cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"


def node(name: str, zone: str, rack: str | None, gpus: int = 8) -> Object:
    labels = {"gpu.topology/gpus": "8", ZONE: zone, **({RACK: rack} if rack else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {GPU: str(gpus), "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


NODES = [node(f"{zone}{rack}{i}", zone, rack) for zone in "ab" for rack in ("r1", "r2") for i in range(2)]
"""Two racks of each name, of two nodes each: to kube-scheduler, two racks of four."""


def group(policy: Object, key: str | None = RACK, name: str = "train") -> Object:
    constraints = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    metadata = {"name": name, "namespace": "ml"}
    spec = {"schedulingPolicy": policy, **constraints}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pods(count: int, gpus: int, named: str = "train", **more: Any) -> list[Object]:
    resources = {"limits": {GPU: str(gpus)}}
    spec = {"schedulingGroup": {"podGroupName": named}, "containers": [{"name": "c", "resources": resources}], **more}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{gpus}-{i}", "namespace": "ml"}, "spec": spec}
        for i in range(count)
    ]


def check(tmp_path: Path, subject: Object, *others: Object, nodes: list[Object] = NODES) -> Any:
    saved = tmp_path / "cluster.json"
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}), encoding="utf-8")
    (found,) = Checker(load_files([str(saved)]), [*others, subject]).check(subject)
    return found


@pytest.mark.parametrize(
    ("policy", "members", "says"),
    [
        ({"gang": {"minCount": 4}}, pods(4, 8), "fits: 2 racks could take it now"),
        ({"gang": {"minCount": 5}}, pods(5, 8), "cannot fit: train needs 40 GPUs in one rack"),
        ({"gang": {"minCount": 4}}, pods(5, 8), "fits: 2 racks could take it now"),
        ({"gang": {"minCount": 4}}, [*pods(1, 8), *pods(3, 4)], "fits: 2 racks could take it now"),
        (
            {"gang": {"minCount": 5}},
            [*pods(3, 8), *pods(2, 4)],
            "unclear: kube-scheduler takes pods of different sizes",
        ),
        ({"gang": {"minCount": 6}}, [*pods(4, 8), *pods(2, 4)], "cannot fit: "),
        ({"basic": {}}, pods(4, 8), "unclear: with schedulingPolicy.basic kube-scheduler may take a domain"),
        ({"basic": {}}, pods(5, 8), "cannot fit: "),
        ({"basic": {}}, pods(1, 8), "fits: 2 racks could take it now"),
    ],
)
def test_a_gang_and_its_pods(tmp_path: Path, policy: Object, members: list[Object], says: str) -> None:
    found = check(tmp_path, group(policy), *members)
    assert answer(found.verdict).startswith(says)
    (warning,) = found.reading.findings
    assert (warning.rule, warning.severity) == ("levels/names-mixed", "warning")
    assert "gpu.topology/unique-rack" in warning.fix


def test_pods_of_different_sizes_that_may_use_different_nodes(tmp_path: Path) -> None:
    """Each counts as the largest, on the nodes that all of them may use."""
    here, there = ({ZONE: zone} for zone in "ab")
    members = [*pods(1, 8, nodeSelector=here), *pods(1, 4, nodeSelector=there)]
    assert check(tmp_path, group({"gang": {"minCount": 2}}), *members).verdict.kind == "unclear"
    members = [*pods(1, 8, nodeSelector=here), *pods(1, 4)]
    assert check(tmp_path, group({"gang": {"minCount": 2}}), *members).verdict.kind == "fits"


def test_without_a_constraint_and_names_of_their_own(tmp_path: Path) -> None:
    found = check(tmp_path, group({"gang": {"minCount": 8}}, None), *pods(8, 8))
    assert (answer(found.verdict), found.reading.findings) == ("fits: 8 pods on 8 nodes", ())
    assert check(tmp_path, group({"gang": {"minCount": 4}}, ZONE), *pods(4, 8)).reading.findings == ()


def test_nodes_without_the_label_are_counted(tmp_path: Path) -> None:
    found = check(tmp_path, group({"gang": {"minCount": 4}}), *pods(4, 8), nodes=[*NODES, node("x", "a", None)])
    (note,) = found.reading.workload.notes
    assert note == f"1 of 9 nodes with GPUs lacks {RACK} and is left out without a word"


def test_pods_that_name_a_group(tmp_path: Path) -> None:
    train, other = group({"gang": {"minCount": 2}}), group({"gang": {"minCount": 9}}, name="other")
    job = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "ml"},
        "spec": {
            "replicatedJobs": [
                {"name": name, "template": {"spec": {"parallelism": 9, "template": pods(1, 8, name)[0]}}}
                for name in ("train", "other")
            ]
        },
    }
    found = check(tmp_path, job, train, other)
    assert answer(found.verdict).startswith("cannot fit: other needs 72 GPUs in one rack")
    missing = check(tmp_path, job, train)
    (error,) = missing.errors
    assert error.message == 'waiting for pods\'s pod group "other" to appear in scheduling queue'
    assert missing.verdict.kind == "fits"
