"""The commands that help to decide, on saved files; what they print stands in pages/ as users see it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command, page, write_cluster
from tests.support.saved import Object, demo_nodes, pod

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


def test_slots(demo: str, toposcope: Command) -> None:
    assert toposcope(f"slots --from {demo}").out == page("slots.txt")
    (row, *_) = toposcope(f"slots --from {demo} --gpus 16 --gpus-per-pod 8 -o json").json["slots"]
    assert row == {"gpus": 16, "domain": "zone", "now": 2, "ended": 4, "empty": 4, "fragmented": 0.738}
    assert "No domain holds 4,096 GPUs" in toposcope(f"slots --from {demo} --gpus 4096,4").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("score nobody", "no gang with GPUs is called 'nobody'; toposcope score -o name lists those that run"),
        ("score --below 2", "argument --below: '2' is not a score; give a number from 0 to 1, such as 0.8"),
        ("slots --gpus 8,x", "argument --gpus: 'x' is not a number of GPUs; give 1 or more"),
        ("slots --gpus-per-pod 0", "'0' is not a number of GPUs; give 1 or more"),
    ],
)
def test_wrong_flags(demo: str, words: str, complaint: str, toposcope: Command) -> None:
    assert complaint in toposcope(f"{words} --from {demo}", code=2).err


def test_without_pods_there_is_no_answer(tmp_path: Path, toposcope: Command) -> None:
    alone = write_cluster(tmp_path / "nodes.json", *demo_nodes(most=3))
    for command in ("score", "slots"):
        assert "what runs is not known" in toposcope(f"{command} --from {alone}", code=2).err
    single = write_cluster(tmp_path / "single.json", *demo_nodes(most=3), *job("one", "gb200-01", gpus=4))
    assert toposcope(f"score --from {single}").out == "no gang of several GPU pods is running\n"
