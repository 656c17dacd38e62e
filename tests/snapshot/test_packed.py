"""Snapshots that `toposcope save` writes: the same cluster comes back, and nothing damaged is taken for one."""

from __future__ import annotations

import dataclasses
import io
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import toposcope.snapshot.packed
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.api.cluster_topology import KIND, MANAGED_BY, TOPOSCOPE
from toposcope.snapshot.decode import every, troubled
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import MAGIC, is_packed, read_packed, write_packed
from toposcope.snapshot.packed_pods import PodColumns, pack_pods
from toposcope.snapshot.problems import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toposcope.snapshot.model import PodView

KAI = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "cluster"},
    "spec": {"levels": [{"nodeLabel": "rack"}]},
}
SEGMENT = cluster_topology({"nodes": 4, "levels": []}) | {
    "metadata": {
        "name": "cluster-h200",
        "uid": "2",
        "labels": {MANAGED_BY: TOPOSCOPE},
        "ownerReferences": [{"controller": True, "kind": KIND, "uid": "1"}],
    }
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = demo_nodes(most=22, faulty=("gb200-05",))
    nodes[1]["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    nodes[2]["metadata"]["labels"] = {"note": "ünïcode"}
    nodes[3]["spec"]["unschedulable"] = True
    pods = [pod("a", "gb200-01", 4), pod("b", "gb200-01", 1), pod("waits", None, 8, phase="Pending")]
    file = tmp_path_factory.mktemp("packed") / "cluster.json"
    file.write_text(saved([*nodes, *pods, cluster_topology({"nodes": 22}, required=["rack"]), SEGMENT, KAI]))
    return file


def packed(snapshot: Snapshot, path: Path) -> Path:
    with path.open("wb") as out:
        assert write_packed(snapshot, out) == out.tell()
    return path


def test_the_same_cluster_comes_back(demo: Path, tmp_path: Path) -> None:
    whole = load_files([str(demo)], keep_matrix=every)
    assert sum(node.matrix is not None for node in whole.nodes) == 22
    file = packed(whole, tmp_path / "saved")
    found = read_packed(file, every)
    assert found.nodes == whole.nodes
    assert found.requested == {name: whole.requested.get(name, {}) for name in whole.by_name}
    assert [found.free_gpus(node) for node in found.nodes] == [whole.free_gpus(node) for node in whole.nodes]
    assert found.pods is not None
    assert tuple(found.pods) == whole.pods
    assert (found.topologies, found.published) == (whole.topologies, whole.published)
    assert len(file.read_bytes()) * 20 < demo.stat().st_size


def test_only_the_matrices_that_are_asked_for_are_read(demo: Path, tmp_path: Path) -> None:
    file = packed(load_files([str(demo)], keep_matrix=every), tmp_path / "saved")
    few = read_packed(file, troubled)
    assert [node.name for node in few.nodes if node.matrix] == ["gb200-05"]
    one = read_packed(file, lambda name, _: name == "gb200-01")
    assert [node.name for node in one.nodes if node.matrix] == ["gb200-01"]


def test_pods_that_are_not_known_stay_unknown(demo: Path, tmp_path: Path) -> None:
    whole = load_files([str(demo)])
    bare = Snapshot(whole.source, None, whole.nodes, None)
    found = read_packed(packed(bare, tmp_path / "saved"), troubled)
    assert found.pods is None
    assert found.free_gpus(found.nodes[0]) is None


def test_beside_other_files_the_others_count(demo: Path, tmp_path: Path) -> None:
    whole = load_files([str(demo)])
    file = packed(whole, tmp_path / "saved")
    changed = tmp_path / "changed.json"
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gb200-01"}}
    changed.write_text(saved([bare, pod("a", "gb200-02", 1), pod("c", "gb200-02", 1)]))
    found = load_files([str(file), str(changed)])
    assert found.by_name["gb200-01"].labels == {}
    assert len(found.nodes) == 22
    assert {each.name: each.node for each in found.pods or ()} == {
        "a": "gb200-02", "b": "gb200-01", "c": "gb200-02", "waits": "",
    }  # fmt: skip
    alone = load_files([str(file), str(file)])
    assert (alone.nodes, alone.pods) == (whole.nodes, whole.pods)


def test_it_is_told_from_other_files(demo: Path, tmp_path: Path) -> None:
    file = packed(load_files([str(demo)]), tmp_path / "saved")
    assert is_packed(str(file))
    assert not is_packed(str(demo))
    assert not is_packed(str(tmp_path))
    with pytest.raises(InputError, match="what toposcope save wrote: give it as a file of its own"):
        load_files(["-"], io.BytesIO(file.read_bytes()))


@pytest.mark.parametrize("version", ["1", "3"])
def test_another_version_says_what_to_do(version: str, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_bytes(MAGIC + version.encode() + b"\nwhatever")
    with pytest.raises(InputError, match="of another version of Toposcope; save it again with this one"):
        read_packed(file, troubled)


@pytest.fixture(scope="module")
def content(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    file = packed(load_files([str(demo)], keep_matrix=every), tmp_path_factory.mktemp("content") / "saved")
    return file.read_bytes(), file


def test_whatever_is_damaged_is_told_or_changes_nothing(content: tuple[bytes, Path]) -> None:
    whole, file = content
    saved_facts = facts(read_packed(file, every))
    broken = file.with_name("damaged")
    chance = random.Random(20251121)
    told = 0
    for _ in range(300):
        at = chance.randrange(len(MAGIC) + 2, len(whole))
        flipped = bytes([whole[at] ^ chance.randrange(1, 256)])
        broken.write_bytes(whole[:at] + chance.choice([b"", flipped + whole[at + 1 :]]))
        try:
            found = facts(read_packed(broken, every))
        except InputError as error:
            told += "save it again" in str(error)
        else:
            assert found == saved_facts
    assert told > 295  # there are bits in the head of what zlib writes that say how hard it tried


def facts(snapshot: Snapshot) -> tuple[object, ...]:
    others = (snapshot.topologies, snapshot.published, snapshot.warnings, snapshot.taken_at, snapshot.catalogue)
    return (snapshot.nodes, tuple(snapshot.pods or ()), dict(snapshot.requested), *others)


def test_a_changed_warning_or_time_is_told(demo: Path, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    whole = dataclasses.replace(load_files([str(demo)]), taken_at=moment, warnings=("pods could not be seen",))
    file = packed(whole, tmp_path / "saved")
    assert (read_packed(file, troubled).warnings, read_packed(file, troubled).taken_at) == (whole.warnings, moment)
    before, content = facts(read_packed(file, troubled)), file.read_bytes()
    begin = len(MAGIC) + 2
    end = begin + 8 + int.from_bytes(content[begin : begin + 8], "big")
    told = 0
    for at in range(begin, end):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        try:
            found = read_packed(file, troubled)
        except InputError as error:
            told += "a damaged snapshot" in str(error)
        else:
            assert facts(found) == before
    assert told >= end - begin - 1


def test_pods_whose_columns_do_not_fit_together_are_told(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forged(pods: Iterable[PodView]) -> PodColumns:
        return msgspec.structs.replace(pack_pods(pods), strings=[])

    monkeypatch.setattr("toposcope.snapshot.packed.pack_pods", forged)
    file = packed(load_files([str(demo)]), tmp_path / "saved")
    with pytest.raises(InputError, match="its pods do not fit together"):
        list(read_packed(file, troubled).pods or ())


def test_a_label_key_that_stands_there_twice_is_told(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = toposcope.snapshot.packed._nodes

    def forged(snapshot: Snapshot) -> msgspec.Struct:
        found = honest(snapshot)
        twice = [msgspec.structs.replace(each, keys=[*each.keys, *each.keys]) for each in found.alike]
        return msgspec.structs.replace(found, alike=twice)

    monkeypatch.setattr("toposcope.snapshot.packed._nodes", forged)
    file = packed(load_files([str(demo)]), tmp_path / "saved")
    with pytest.raises(InputError, match="its columns do not fit together"):
        read_packed(file, troubled)
