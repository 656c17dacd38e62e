"""The commands that help to decide, on saved files; what they print stands in pages/ as users see it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command, page, write_cluster
from tests.support.saved import Object, demo_nodes, pod
from tests.support.tables import each_case

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, "uid": "1"}


def job(name: str, *nodes: str, gpus: int = 8) -> list[Object]:
    """The pods of a running Job."""
    made = [pod(f"{name}-{number}", node, gpus) for number, node in enumerate(nodes)]
    for one in made:
        one["metadata"]["ownerReferences"] = [{**OWNER, "name": name}]
    return made


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    running = [
        *job("apart", "h200-1", "h200-8"),
        *job("close", "gb200-01", "gb200-02", "gb200-03", gpus=4),
        *job("left", "h200-2", gpus=2),
    ]
    return write_cluster(tmp_path_factory.mktemp("demo") / "cluster.json", *demo_nodes(), *running)


def test_scores(demo: str, toposcope: Command) -> None:
    assert toposcope(f"score --from {demo}").out == page("score.txt")
    assert toposcope(f"score --from {demo} --below 0.9 -o name", code=1).out == "train/apart\n"
    assert toposcope(f"score train/close --from {demo} --below 0.9").out == "no gang scores that low (1 checked)\n"
    (found,) = toposcope(f"score apart --from {demo} -o json").json["gangs"]
    assert (found["score"], found["betterNow"], found["pods"], found["gpus"]) == (0.5, True, 2, 16)
    assert {"domain": "rack", "spans": 2, "fewestNow": 1, "fewest": 1} in found["levels"]
    assert "zone 1, block 1, rack 2" in toposcope(f"score --from {demo} -o wide").out


def test_pods_with_parts_of_gpus_are_named_as_not_counted(tmp_path: Path, toposcope: Command) -> None:
    part = pod("part", "h200-1", 1)
    part["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.18gb": "2"}}
    saved = write_cluster(tmp_path / "cluster.json", *demo_nodes(), *job("apart", "h200-1", "h200-8"), part)
    for command in ("score", "slots"):
        assert "! not counted: 1 pod with parts of GPUs (MIG" in toposcope(f"{command} --from {saved}").out


def test_slots(demo: str, toposcope: Command) -> None:
    assert toposcope(f"slots --from {demo}").out == page("slots.txt")
    (row, *_) = toposcope(f"slots --from {demo} --gpus 16 --gpus-per-pod 8 -o json").json["slots"]
    assert row == {"gpus": 16, "domain": "zone", "now": 2, "ended": 4, "empty": 4, "fragmented": 0.738}
    assert "No domain holds 4,096 GPUs" in toposcope(f"slots --from {demo} --gpus 4096,4").out


@pytest.mark.parametrize("flags", ["--drain rack=rack-3", "--free 72", "--add 8 --like h200-1 --in rack=rack-9"])
def test_what_if(demo: str, flags: str, toposcope: Command) -> None:
    name = flags.split(maxsplit=1)[0].strip("-")
    assert toposcope(f"whatif {flags} --from {demo}", code=int(name == "free")).out == page(f"whatif-{name}.txt")


def test_what_if_for_programs(demo: str, tmp_path: Path, toposcope: Command) -> None:
    found = toposcope(f"whatif --drain h200-1 --finish left --from {demo} -o json").json
    assert [(gang["name"], gang["outcome"], gang["level"]) for gang in found["gangs"]] == [("apart", "stays", "block")]
    assert {"gpus": 152, "domain": "zone", "before": None, "after": None} not in found["slots"]
    freed = toposcope(f"whatif --free 16 --level rack --gpus-per-pod 8 --from {demo} -o yaml").yaml
    assert (freed["level"], freed["pods"]) == ("rack", [])
    wanted = write_cluster(tmp_path / "job.json", job("new", "")[0])
    assert "+ pod/new-0" in toposcope(f"whatif --admit {wanted} --from {demo}", code=None).out


def test_an_order_to_drain(demo: str, toposcope: Command) -> None:
    assert toposcope(f"drain-order -n 4 --from {demo}").out == page("drain-order.txt")
    names = toposcope(f"drain-order --level rack --from {demo} -o name").out.split()
    (first, *_) = toposcope(f"drain-order --level rack --from {demo} -o json").json["steps"]
    assert first["name"] == names[0] == "zone-1/block-1/rack-2"
    assert first["slots"][0] == {"gpus": 64, "domain": "block", "before": 1, "after": 0}
    assert "rack-3 runs train/apart" in toposcope(f"drain-order --level rack --from {demo} -o wide").out


def budget(allowed: int) -> Object:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "train"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": {"disruptionsAllowed": allowed},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("allowed", "flags", "code"),
    [(1, "", 0), (0, "", 2), (1, "--priority-below 5", 2), (1, "--priority-below 6", 0)],
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


@each_case("tables/cli.yaml")
def test_wrong_flags(demo: str, words: str, complaint: str, toposcope: Command) -> None:
    assert complaint in toposcope(f"{words} --from {demo}", code=2).err


def test_without_pods_there_is_no_answer(tmp_path: Path, toposcope: Command) -> None:
    alone = write_cluster(tmp_path / "nodes.json", *demo_nodes(most=3))
    for command in ("score", "slots"):
        assert "what runs is not known" in toposcope(f"{command} --from {alone}", code=2).err
    single = write_cluster(tmp_path / "single.json", *demo_nodes(most=3), *job("one", "gb200-01", gpus=4))
    assert toposcope(f"score --from {single}").out == "no gang of several GPU pods is running\n"
