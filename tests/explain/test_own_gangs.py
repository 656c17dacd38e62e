"""Why a gang of kube-scheduler waits: the PodGroup, the pods that name it, and what the scheduler says of both."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.explain.waiting import RACK, Object, busy, cluster_topology, condition, named, nodes, pod
from tests.support.saved import saved
from toposcope.cli.main import main

VERSION = "scheduling.k8s.io/v1alpha2"
NO_PLACEMENT = condition("PodGroupScheduled", "False", "Unschedulable", "no feasible placements found")
NO_ROOM = "0/2 placements are available, first placement status: pod group is unschedulable"
NO_ROOM_NOW = condition("PodGroupScheduled", "False", "Unschedulable", NO_ROOM)
SCHEDULED = condition("PodGroupScheduled", "True", "Scheduled", "")


def group(*conditions: Object, key: str = RACK, least: int = 4) -> Object:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": least}},
        "schedulingConstraints": {"topology": [{"key": key}]},
    }
    return {**named(VERSION, "PodGroup", "train", spec), "status": {"conditions": list(conditions)}}


def member(name: str, node: str = "", group: str = "train") -> Object:
    found = pod(name, node, "waiting for minCount pods from a gang to be scheduled")
    spec = {**found["spec"], "schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": group}}
    return {**found, "spec": spec}


def explained(
    folder: Path, capsys: pytest.CaptureFixture[str], *cluster: Object, subject: str = "podgroup/train"
) -> Any:
    (folder / "cluster.json").write_text(saved([*nodes(), cluster_topology(), *cluster]))
    main(["explain", subject, "--from", str(folder / "cluster.json"), "-o", "json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ([group(NO_PLACEMENT, key="rak")], "no feasible placements found"),
        ([group(NO_ROOM_NOW), *busy("h200-1", "h200-5")], "train needs 32 GPUs in one rack, largest has 24"),
        ([group()], "kube-scheduler has not looked at podgroup/train -n ml"),
        ([], 'waiting for pods\'s pod group "train" to appear in scheduling queue'),
    ],
)
def test_the_first_thing_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cluster: list[Object], says: str
) -> None:
    other = {**group(SCHEDULED), "metadata": {"name": "other", "namespace": "ml"}}
    pods = [member(f"p{i}") for i in range(4)]
    subject = "podgroup/train" if cluster else "pod/p0"
    found = explained(tmp_path, capsys, other, *cluster, *pods, subject=subject)
    assert says in json.dumps(found["answer"]).replace('\\"', '"')


def test_a_pod_leads_to_its_group_and_its_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(tmp_path, capsys, group(NO_ROOM_NOW), *(member(f"p{i}") for i in range(4)), subject="pod/p0")
    said = {message["text"]: message["meaning"] for message in found["messages"]}
    assert said[NO_ROOM].startswith("none of the 2 values of the label")
    assert said["waiting for minCount pods from a gang to be scheduled"] == "too few pods of the PodGroup found a node"


def test_a_gang_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = [member(f"p{i}", f"h200-{i + 1}") for i in range(4)]
    found = explained(tmp_path, capsys, group(SCHEDULED), *running)
    assert found["answer"] is None
    (placement,) = found["placements"]
    assert placement["kept"] is True
    spread = [member(f"p{i}", f"h200-{i + 3}") for i in range(4)]
    (placement,) = explained(tmp_path, capsys, group(SCHEDULED), *spread)["placements"]
    assert placement["kept"] is False
