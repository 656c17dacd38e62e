"""Snapshots that `toposcope save` writes: the same cluster comes back, and nothing damaged is taken for one."""

import contextlib
import dataclasses
import io
import json
import random
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.documents import read_manifest
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.cli.main import main
from toposcope.snapshot import packed
from toposcope.snapshot.cutter import LIMIT
from toposcope.snapshot.decode import degraded, every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import MAGIC, read_packed, write_packed
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.sources import sources


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nodes and pods with something special each, and what schedulers read."""
    nodes = demo_nodes(most=22, faulty=("gb200-05",))
    nodes[1]["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    nodes[2]["metadata"]["labels"] = {"note": "ünïcode"}
    nodes[3]["spec"]["unschedulable"] = True
    others = [
        pod("a", "gb200-01", 4),
        pod("b", "gb200-01", 1),
        pod("waits", None, 8, phase="Pending"),
        cluster_topology({"nodes": 22}, required=["rack"]),
        read_manifest("snapshot/segment.yaml"),
        read_manifest("snapshot/kai-topology.yaml"),
        read_manifest("snapshot/local-queue.yaml"),
    ]
    file = tmp_path_factory.mktemp("packed") / "cluster.json"
    file.write_text(saved([*nodes, *others]))
    return file


def save(snapshot: Snapshot, path: Path) -> Path:
    with path.open("wb") as out:
        assert write_packed(snapshot, out) == out.tell()
    return path


def with_matrix(snapshot: Snapshot) -> list[str]:
    """The nodes whose matrix is known."""
    return [node.name for node in snapshot.nodes if node.matrix]


def test_same_cluster_comes_back(demo: Path, tmp_path: Path) -> None:
    loaded = load_files([str(demo)], keep_matrix=every)
    whole = dataclasses.replace(loaded, served={"topologies.kai.scheduler": True})
    assert [document["kind"] for document in whole.objects] == ["LocalQueue"]
    assert len(with_matrix(whole)) == 22

    file = save(whole, tmp_path / "saved")
    packed_again = read_packed(file, every)
    assert packed_again.nodes == whole.nodes
    assert list(packed_again.requested) == list(whole.by_name)
    for node in whole.nodes:
        assert packed_again.requested[node.name] == whole.requested.get(node.name, {})
        assert packed_again.free_gpus(node) == whole.free_gpus(node)
    assert packed_again.pods is not None
    assert tuple(packed_again.pods) == whole.pods
    assert packed_again.topologies == whole.topologies
    assert packed_again.published == whole.published
    assert file.stat().st_size * 20 < demo.stat().st_size


def test_only_the_matrices_that_are_asked_for_are_read(demo: Path, tmp_path: Path) -> None:
    file = save(load_files([str(demo)], keep_matrix=every), tmp_path / "saved")
    few = read_packed(file, degraded)
    assert with_matrix(few) == ["gb200-05"]
    one = read_packed(file, lambda name, _: name == "gb200-01")
    assert with_matrix(one) == ["gb200-01"]


def test_pods_that_are_not_known_stay_unknown(demo: Path, tmp_path: Path) -> None:
    whole = load_files([str(demo)])
    bare = Snapshot(whole.source, None, whole.nodes, None)
    found = read_packed(save(bare, tmp_path / "saved"), degraded)
    assert found.pods is None
    assert found.free_gpus(found.nodes[0]) is None


def test_beside_other_files_the_others_count(demo: Path, tmp_path: Path) -> None:
    whole = load_files([str(demo)])
    file = save(whole, tmp_path / "saved")
    changed = tmp_path / "changed.json"
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gb200-01"}}
    changed.write_text(saved([bare, pod("a", "gb200-02", 1), pod("c", "gb200-02", 1)]))
    together = load_files([str(file), str(changed)])
    assert together.by_name["gb200-01"].labels == {}
    assert len(together.nodes) == 22
    places = {pod.name: pod.node for pod in together.pods or ()}
    assert places == {
        "a": "gb200-02",
        "b": "gb200-01",
        "c": "gb200-02",
        "waits": "",
    }


def test_file_given_twice_counts_once(demo: Path, tmp_path: Path) -> None:
    whole = load_files([str(demo)])
    file = save(whole, tmp_path / "saved")
    twice = load_files([str(file), str(file)])
    assert twice.nodes == whole.nodes
    assert twice.pods == whole.pods


@pytest.mark.regression
def test_saved_objects_stay_as_they_are_beside_other_files(tmp_path: Path) -> None:
    named = {"metadata": {"name": "train", "namespace": "ml"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        **named,
        "pods": ["a"],
    }
    gangs = [
        {
            "apiVersion": f"{group}/v",
            "kind": kind,
            **named,
            "spec": {},
        }
        for group, kind in [
            ("scheduler.grove.io", "PodGang"),
            ("scheduling.run.ai", "PodGroup"),
            ("scheduling.volcano.sh", "PodGroup"),
            ("scheduling.k8s.io", "PodGroup"),
        ]
    ]
    pod_set = {"name": "main", "count": 2, "requests": {"nvidia.com/gpu": 8}}
    admitted = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        **named,
        "spec": {"podSets": [pod_set]},
    }
    admitted["status"] = {"admission": {"clusterQueue": "gpus"}}
    objects = (budget, *gangs, admitted)
    file = save(Snapshot("live", None, (), (), objects=objects), tmp_path / "saved")
    other = tmp_path / "other.json"
    other.write_text(saved([pod("a", None, 1), budget]))
    assert load_files([str(file), str(other)]).objects == objects


@pytest.mark.regression
def test_check_takes_a_saved_budget_beside_other_files(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "ml"}}
    whole = dataclasses.replace(load_files([str(demo)]), objects=({**budget, "pods": ["a"]},))
    file = save(whole, tmp_path / "saved")
    other, asks = tmp_path / "other.json", tmp_path / "pod.json"
    other.write_text(saved([budget]))
    asks.write_text(json.dumps(pod("new", None, 1)))
    assert main(["check", "--from", str(file), "--from", str(other), "-f", str(asks)]) == 0
    assert "fits" in capsys.readouterr().out


def test_snapshot_is_told_from_other_files(demo: Path, tmp_path: Path) -> None:
    file = save(load_files([str(demo)]), tmp_path / "saved")
    missing = tmp_path / "gone"
    with ExitStack() as stack:
        opened = sources([str(file), str(demo), str(tmp_path), str(missing), "-"], stack)
    assert [source.packed for source in opened] == [True, False, False, False, False]
    with pytest.raises(InputError, match="written by toposcope save: give it as a file of its own"):
        load_files(["-"], io.BytesIO(file.read_bytes()))


@pytest.mark.parametrize("version", ["1", "2", "3", "5"])
def test_another_version_says_what_to_do(version: str, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_bytes(MAGIC + version.encode() + b"\nwhatever")
    with pytest.raises(InputError, match="written by another version of Toposcope; save it again: toposcope save FILE"):
        read_packed(file, degraded)


@pytest.fixture(scope="module")
def content(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    file = save(load_files([str(demo)], keep_matrix=every), tmp_path_factory.mktemp("content") / "saved")
    return file.read_bytes(), file


def test_damage_is_reported_or_changes_nothing(content: tuple[bytes, Path]) -> None:
    whole, file = content
    saved_facts = facts(read_packed(file, every))
    broken = file.with_name("damaged")
    rng = random.Random(20251121)
    reported = 0
    for _ in range(300):
        at = rng.randrange(len(MAGIC) + 2, len(whole))
        flipped = bytes([whole[at] ^ rng.randrange(1, 256)])
        broken.write_bytes(whole[:at] + rng.choice([b"", flipped + whole[at + 1 :]]))
        try:
            found = facts(read_packed(broken, every))
        except InputError as error:
            reported += "save it again" in str(error)
        else:
            assert found == saved_facts
    assert reported > 295  # there are bits in the head of what zlib writes that say how hard it tried


def facts(snapshot: Snapshot) -> tuple[object, ...]:
    others = (snapshot.topologies, snapshot.published, snapshot.warnings, snapshot.taken_at, snapshot.catalogue)
    return (snapshot.nodes, tuple(snapshot.pods or ()), dict(snapshot.requested), *others)


def test_changed_warning_or_time_is_damage(demo: Path, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    whole = dataclasses.replace(load_files([str(demo)]), taken_at=moment, warnings=("pods could not be seen",))
    file = save(whole, tmp_path / "saved")
    before = read_packed(file, degraded)
    assert before.warnings == whole.warnings
    assert before.taken_at == moment

    content = file.read_bytes()
    for at in range(len(MAGIC) + 2, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        file.write_bytes(damaged)
        with contextlib.suppress(InputError):
            assert facts(read_packed(file, degraded)) == facts(before)


def forge(file: Path, part: str, **fields: Any) -> None:
    """Replace fields in a part of the file, with a checksum that fits."""
    head = len(MAGIC) + 2
    content = file.read_bytes()
    parts = msgspec.msgpack.decode(content[head:], type=packed._File)
    kind: Any = {"cluster": packed._Cluster, "pods": packed._Pods}[part]
    honest: Any = packed._unzipped(getattr(parts, part), kind, LIMIT, LIMIT)
    changed = msgspec.structs.replace(
        honest, **{name: change(getattr(honest, name)) for name, change in fields.items()}
    )
    forged = msgspec.structs.replace(parts, **{part: packed._zipped(changed)})
    file.write_bytes(content[:head] + msgspec.msgpack.encode(forged))


def test_rows_and_tables_that_do_not_fit_together_are_reported(demo: Path, tmp_path: Path) -> None:
    file = save(load_files([str(demo)]), tmp_path / "saved")
    forge(file, "pods", owners=lambda _owners: [])
    with pytest.raises(InputError, match="a damaged snapshot; save it again: toposcope save FILE"):
        list(read_packed(file, degraded).pods or ())
    forge(file, "cluster", keys=lambda keys: [key * 2 for key in keys])
    with pytest.raises(InputError, match="a damaged snapshot"):
        read_packed(file, degraded)


@pytest.mark.parametrize("table", ["keys", "strings", "taints", "allocatable", "conditions", "requested"])
def test_index_beyond_its_table_is_damage(demo: Path, tmp_path: Path, table: str) -> None:
    file = save(load_files([str(demo)]), tmp_path / "saved")
    forge(file, "cluster", **{table: lambda _values: []})
    with pytest.raises(InputError, match="a damaged snapshot"):
        read_packed(file, degraded)


def test_missing_pod_is_damage(demo: Path, tmp_path: Path) -> None:
    file = save(load_files([str(demo)]), tmp_path / "saved")
    forge(file, "pods", pods=lambda pods: pods[:-1])
    with pytest.raises(InputError, match="a damaged snapshot"):
        list(read_packed(file, degraded).pods or ())


def test_missing_node_is_damage(demo: Path, tmp_path: Path) -> None:
    file = save(load_files([str(demo)]), tmp_path / "saved")
    forge(file, "cluster", nodes=lambda nodes: nodes[:-1])
    with pytest.raises(InputError, match="a damaged snapshot"):
        read_packed(file, every)
