"""Large lists are read many objects at a time: the result must be what the careful way of reading gives."""

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.snapshot import bulk
from toposcope.snapshot.bulk import BulkFile, UnsupportedLayoutError
from toposcope.snapshot.decode import every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.problems import InputError

PODS: Final = [
    pod("runs", "gb200-01", 3),
    pod("over", "gb200-02", 3, phase="Succeeded"),
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waits", "annotations": {"pod-group-name": "pg", "kai.scheduler/x": "y"}},
        "spec": {
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}],
            "nodeSelector": {"rack": "r1"},
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]},
    },
]
KUEUE: Final = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "Topology",
    "metadata": {"name": "t"},
    "spec": {"levels": [{"nodeLabel": "rack"}]},
}
PLAIN: Final = [*demo_nodes(most=7), *PODS]
MIXED: Final = [KUEUE, *PLAIN[:4], cluster_topology(required=["rack"]), *PLAIN[4:], KUEUE]
OTHER: Final = {"apiVersion": "other.io/v1", "kind": "Node", "metadata": {"name": "no-node-of-ours"}}


@pytest.fixture(params=[64, 5_000, 1 << 18])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of any size are read so, in pieces of so many bytes."""
    monkeypatch.setattr(bulk, "SMALLEST", 0)
    monkeypatch.setattr(bulk, "_CHUNK", request.param)


def outcome(path: Path) -> object:
    try:
        found = load_files([str(path)], keep_matrix=every)
    except InputError as error:
        return [str(problem) for problem in error.problems]
    pods = None if found.pods is None else tuple(found.pods)
    return found.nodes, pods, found.topologies, found.published, found.warnings


def carefully(path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "SMALLEST", 1 << 40)
        return outcome(path)


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "cluster.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("items", [PLAIN, MIXED, [*PLAIN, OTHER], PLAIN[:1], [PODS[1]]])
def test_the_same_cluster_either_way(
    items: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, saved(items))
    read = [json.loads(bytes(text)) for text in BulkFile(path).lists()]
    assert [item for part in read for item in part] == items
    assert outcome(path) == carefully(path, monkeypatch)


@pytest.mark.usefixtures("piece")
def test_whatever_is_damaged_is_told_as_the_careful_way_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = saved(MIXED).encode()
    chance = random.Random(7)
    for _ in range(25):
        at, length = chance.randrange(len(text)), chance.choice([1, 1, 2, 40, 3_000])
        path = written(tmp_path, text[:at] + chance.choice([b"", b'"', b"}", b"\xff", b"\n"]) + text[at + length :])
        assert outcome(path) == carefully(path, monkeypatch)
    for wrong in ('"gb200-01"', '"nvidia.com/gpu": "4"', '"items"', '"kind": "Pod"', '"kind": "List"'):
        path = written(tmp_path, text.decode().replace(wrong, wrong.replace('"', "{", 1).replace('"', "}", 1)))
        assert outcome(path) == carefully(path, monkeypatch)
    path = written(tmp_path, text.decode().replace('"nvidia.com/gpu": "4"', '"nvidia.com/gpu": "many"'))
    assert "many" in str(outcome(path))
    assert outcome(path) == carefully(path, monkeypatch)


@pytest.mark.usefixtures("piece")
def test_two_lists_in_a_file_are_read_the_careful_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, saved(PLAIN[:3]) + saved(PLAIN[2:]))
    assert outcome(path) == carefully(path, monkeypatch)
    assert len(load_files([str(path)]).nodes) == 7


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("text", [saved(PLAIN).replace("\n", "\r\n"), json.dumps(PLAIN)])
def test_another_layout_is_left_to_the_careful_way(text: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedLayoutError):
        BulkFile(written(tmp_path, text))


def test_small_files_are_not_worth_it(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedLayoutError):
        BulkFile(written(tmp_path, saved(PLAIN)))
