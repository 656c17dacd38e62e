"""Shares of GPUs as the commands show them: no figure about GPUs counts them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Command, write_cluster
from tests.support.sharing import mixed_cluster, running, sharing_node


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    return write_cluster(tmp_path / "cluster.json", *mixed_cluster())


def figures(row: str) -> list[int]:
    """The numbers in a row."""
    return [int(word) for word in row.split() if word.isdecimal()]


@pytest.mark.regression
def test_tree_never_has_more_free_gpus_than_gpus(mixed: str, toposcope: Command) -> None:
    _topology, _titles, *lines = toposcope(f"tree --all --from {mixed}", code=1).out.splitlines()
    rows = []
    for line in lines:
        numbers = figures(line)
        if len(numbers) == 3:
            rows.append(numbers)
    assert [6, 28, 11] in rows
    for _, gpus, free in rows:
        assert free <= gpus

    shares = [line for line in lines if line.startswith("not in FREE")]
    names = []
    for line in shares:
        _, _, name = line.rpartition(": ")
        names.append(name)
    assert names == ["mig-single", "sliced", "renamed", "mig-mixed"]
    assert "39 of 40 time slices free (nvidia.com/gpu) on 1 node with 4 GPUs" in shares[1]


def test_tree_without_pods_names_shares_all_the_same(tmp_path: Path, toposcope: Command) -> None:
    nodes = [document for document in mixed_cluster() if document["kind"] == "Node"]
    file = write_cluster(tmp_path / "nodes.json", *nodes)
    out = toposcope(f"tree --from {file}", code=1).out
    assert "because shares are not GPUs: 40 time slices (nvidia.com/gpu) on 1 node with 4 GPUs: sliced" in out


def test_tree_for_scripts_has_shares(mixed: str, toposcope: Command) -> None:
    found = toposcope(f"tree -o json --from {mixed}", code=1).json
    assert found["gpus"] == 28
    assert found["freeGpus"] == 11
    assert found["shares"][1] == {
        "resource": "nvidia.com/gpu",
        "unit": "time slice",
        "nodes": ["sliced"],
        "gpus": 4,
        "total": 40,
        "free": 39,
    }


def test_cluster_without_shares_says_nothing_of_them(tmp_path: Path, toposcope: Command) -> None:
    whole = sharing_node("n", offers={"nvidia.com/gpu": 4})
    file = write_cluster(tmp_path / "cluster.json", whole)
    printed = toposcope(f"tree --from {file}", code=1).out
    assert "share" not in printed
    tree = toposcope(f"tree -o json --from {file}", code=1).json
    assert "shares" not in tree
    nodes = toposcope(f"nodes -o json --from {file}").json
    (node,) = nodes["nodes"]
    assert "shares" not in node


def test_nodes_have_whole_gpus_and_shares_apart(mixed: str, toposcope: Command) -> None:
    out = toposcope(f"nodes --from {mixed}").out.splitlines()
    gpus_and_free = {line.split()[0]: figures(line)[:2] for line in out[1:7]}
    assert gpus_and_free == {
        "eight": [8, 8],
        "mig-mixed": [4, 0],
        "mig-single": [4, 0],
        "renamed": [4, 0],
        "sliced": [4, 0],
        "whole": [4, 3],
    }
    assert "sliced: its 4 GPUs are offered as 40 time slices (nvidia.com/gpu), 39 free" in out
    assert "mig-single: its 4 GPUs are offered as 28 1g.5gb MIG devices (nvidia.com/gpu), 28 free" in out


def test_nodes_for_scripts_have_shares(mixed: str, toposcope: Command) -> None:
    nodes: list[dict[str, Any]] = toposcope(f"nodes -o json --from {mixed}").json["nodes"]
    node = next(node for node in nodes if node["name"] == "mig-single")
    assert node["gpus"] == 4
    assert node["freeGpus"] == 0
    assert node["shares"] == [
        {
            "resource": "nvidia.com/gpu",
            "unit": "MIG device",
            "profile": "1g.5gb",
            "total": 28,
            "free": 28,
        }
    ]
    assert node["resources"] == {"nvidia.com/gpu": {"allocatable": 28, "free": 28}}


@pytest.mark.regression
def test_no_slot_for_32_gpus(mixed: str, toposcope: Command) -> None:
    out = toposcope(f"slots --gpus 32 --gpus-per-pod 4 --from {mixed}").out
    assert "No domain holds 32 GPUs, even on an empty cluster." in out
    assert "! not counted: shared GPUs, which no gang can use, on 4 nodes" in out
    assert toposcope(f"slots --gpus 32 --gpus-per-pod 4 -o json --from {mixed}").json["slots"] == []


@pytest.mark.regression
def test_shares_leave_one_slot_for_8_gpus(mixed: str, toposcope: Command) -> None:
    rows = toposcope(f"slots --gpus 8 --gpus-per-pod 8 -o json --from {mixed}").json["slots"]
    assert {row["domain"]: row["now"] for row in rows}["host"] == 1


def test_slots_by_default_are_those_of_whole_nodes(mixed: str, toposcope: Command) -> None:
    found = toposcope(f"slots -o json --from {mixed}").json
    assert found["gpusPerPod"] == 8


def test_slots_of_a_cluster_of_shares_alone(tmp_path: Path, toposcope: Command) -> None:
    node = sharing_node("hami", offers={"nvidia.com/gpu": 40})
    file = write_cluster(tmp_path / "cluster.json", node, running("p", "hami", {"nvidia.com/gpu": 1}))
    out = toposcope(f"slots --from {file}").out
    assert "! no slot can be counted: none of 1 node offers nvidia.com/gpu as whole GPUs" in out
    assert "No node offers whole GPUs." in out


def test_score_leaves_pods_with_shares_out(mixed: str, toposcope: Command) -> None:
    out = toposcope(f"score --from {mixed}").out
    assert "! not counted: 3 pods with parts of GPUs" in out


@pytest.mark.regression
def test_check_judges_as_the_scheduler_and_warns(mixed: str, tmp_path: Path, toposcope: Command) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 39}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ml"},
        "spec": {"parallelism": 1, "completions": 1, "template": template},
    }
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(document))
    out = toposcope(f"check -f {job} --from {mixed}").out
    assert "fits: 1 pod on 1 node, on shares of GPUs, not on whole GPUs" in out
    assert "warning: job/j -n ml (line 1): it fits only on shares of GPUs" in out
    (workload,) = toposcope(f"check -f {job} -o json --from {mixed}").json["workloads"]
    rules = [finding["rule"] for finding in workload["findings"]]
    assert "gpus/shares" in rules
