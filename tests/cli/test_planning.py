"""The commands that help to decide, on saved files; what they print stands in pages/ as users see it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command, write_cluster
from tests.support.saved import Object, demo_nodes, pod

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, "uid": "1"}


def job(name: str, *nodes: str, gpus: int = 8) -> list[Object]:
    """The pods of a running Job."""
    made = [pod(f"{name}-{number}", node, gpus) for number, node in enumerate(nodes)]
    for one in made:
        one["metadata"]["ownerReferences"] = [{**OWNER, "name": name}]
    return made


def budget(allowed: int) -> Object:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "train"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": {"disruptionsAllowed": allowed},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("allowed", "flags", "code"), [(1, "", 0), (0, "", 2), (1, "--priority-below 5", 2), (1, "--priority-below 6", 0)]
)
def test_what_must_not_move(tmp_path: Path, allowed: int, flags: str, code: int, toposcope: Command) -> None:
    (running,) = job("one", "gb200-01", gpus=4)
    running["metadata"]["labels"] = {"app": "a"}
    running["spec"]["priority"] = 5
    nodes = [one for one in demo_nodes(most=3) if one["metadata"]["name"].startswith("gb200")]
    file = write_cluster(tmp_path / "cluster.json", *nodes, running, budget(allowed))
    ran = toposcope(f"whatif --free {len(nodes) * 4} --level rack {flags} --from {file}", code=None)
    assert (ran.code == 2) == (code == 2), ran
    assert ("pods that a PodDisruptionBudget" in ran.err) == (code == 2)
    ran = toposcope(f"drain-order --from {file}", code=int(not allowed))
    assert ("not with those above: train/keep lets no more go" in ran.out) == (not allowed)
