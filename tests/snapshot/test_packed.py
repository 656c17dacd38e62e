"""Snapshots that `toposcope save` writes: the same cluster comes back, and nothing damaged is taken for one."""

import contextlib
import dataclasses
import io
import json
import random
from collections.abc import Callable
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
from toposcope.snapshot.decode import keep_degraded, keep_every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import MAGIC, read_packed, write_packed
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.sources import sources


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nodes and pods with something special each, and what schedulers read."""
    nodes = demo_nodes(most=22, faulty=("gb200-05",))
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    nodes[1]["spec"]["taints"] = [taint]
    nodes[2]["metadata"]["labels"] = {"note": "ünïcode"}
    nodes[3]["spec"]["unschedulable"] = True
    nodes[4]["spec"]["providerID"] = "azure:///subscriptions/s/vm"
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


def load(*files: Path) -> Snapshot:
    """The cluster of these files, with no matrix but those of degraded nodes."""
    return load_files([str(file) for file in files])


def load_whole(file: Path) -> Snapshot:
    """The cluster of a file, with all matrices."""
    return load_files([str(file)], keep_matrix=keep_every)


def save(snapshot: Snapshot, path: Path) -> Path:
    with path.open("wb") as out:
        assert write_packed(snapshot, out) == out.tell()
    return path


def with_matrix(snapshot: Snapshot) -> list[str]:
    """The nodes whose matrix is known."""
    return [node.name for node in snapshot.nodes if node.matrix]


def test_same_cluster_comes_back(demo: Path, tmp_path: Path) -> None:
    loaded = load_whole(demo)
    whole = dataclasses.replace(loaded, served={"topologies.kai.scheduler": True})
    (document,) = whole.objects
    assert document["kind"] == "LocalQueue"
    assert len(with_matrix(whole)) == 22

    file = save(whole, tmp_path / "saved")
    packed_again = read_packed(file, keep_every)
    assert packed_again.nodes == whole.nodes
    assert list(packed_again.requested) == list(whole.by_name)
    for node in whole.nodes:
        requested = whole.requested.get(node.name, {})
        assert packed_again.requested[node.name] == requested
        assert packed_again.free_gpus(node) == whole.free_gpus(node)
    assert packed_again.pods is not None
    assert tuple(packed_again.pods) == whole.pods
    assert packed_again.topologies == whole.topologies
    assert packed_again.published == whole.published
    packed_size = file.stat().st_size
    assert packed_size * 20 < demo.stat().st_size


def test_only_the_matrices_that_are_asked_for_are_read(demo: Path, tmp_path: Path) -> None:
    whole = load_whole(demo)
    file = save(whole, tmp_path / "saved")
    few = read_packed(file, keep_degraded)
    assert with_matrix(few) == ["gb200-05"]
    one = read_packed(file, lambda name, _: name == "gb200-01")
    assert with_matrix(one) == ["gb200-01"]


def test_pods_that_are_not_known_stay_unknown(demo: Path, tmp_path: Path) -> None:
    whole = load(demo)
    bare = Snapshot(whole.source, None, whole.nodes, None)
    file = save(bare, tmp_path / "saved")
    again = read_packed(file, keep_degraded)
    assert again.pods is None
    first = again.nodes[0]
    assert again.free_gpus(first) is None


def test_beside_other_files_the_others_count(demo: Path, tmp_path: Path) -> None:
    file = save(load(demo), tmp_path / "saved")
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gb200-01"}}
    moved = pod("a", "gb200-02", 1)
    added = pod("c", "gb200-02", 1)
    changed = tmp_path / "changed.json"
    changed.write_text(saved([bare, moved, added]))

    together = load(file, changed)
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
    whole = load(demo)
    file = save(whole, tmp_path / "saved")
    twice = load(file, file)
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
    gangs = []
    for group, kind in [
        ("scheduler.grove.io", "PodGang"),
        ("scheduling.run.ai", "PodGroup"),
        ("scheduling.volcano.sh", "PodGroup"),
        ("scheduling.k8s.io", "PodGroup"),
    ]:
        gang = {
            "apiVersion": f"{group}/v",
            "kind": kind,
            **named,
            "spec": {},
        }
        gangs.append(gang)
    pod_set = {
        "name": "main",
        "count": 2,
        "requests": {"nvidia.com/gpu": 8},
    }
    admitted = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        **named,
        "spec": {"podSets": [pod_set]},
        "status": {"admission": {"clusterQueue": "gpus"}},
    }
    objects = (budget, *gangs, admitted)
    live = Snapshot("live", None, (), (), objects=objects)
    file = save(live, tmp_path / "saved")
    other = tmp_path / "other.json"
    other.write_text(saved([pod("a", None, 1), budget]))

    together = load(file, other)
    assert together.objects == objects


@pytest.mark.regression
def test_check_takes_a_saved_budget_beside_other_files(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "ml"},
    }
    kept = {**budget, "pods": ["a"]}
    whole = dataclasses.replace(load(demo), objects=(kept,))
    file = save(whole, tmp_path / "saved")
    other = tmp_path / "other.json"
    other.write_text(saved([budget]))
    workload = tmp_path / "pod.json"
    workload.write_text(json.dumps(pod("new", None, 1)))

    words = ["check", "-f", str(workload)]
    words += ["--from", str(file)]
    words += ["--from", str(other)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "fits" in printed


def test_snapshot_is_told_from_other_files(demo: Path, tmp_path: Path) -> None:
    file = save(load(demo), tmp_path / "saved")
    missing = tmp_path / "gone"
    names = [str(file), str(demo), str(tmp_path), str(missing), "-"]
    with ExitStack() as stack:
        opened = sources(names, stack)
    are_packed = [source.is_packed for source in opened]
    assert are_packed == [True, False, False, False, False]
    stdin = io.BytesIO(file.read_bytes())
    with pytest.raises(InputError, match="written by toposcope save: give it as a file of its own"):
        load_files(["-"], stdin)


@pytest.mark.parametrize("version", ["1", "2", "3", "5"])
def test_another_version_says_what_to_do(version: str, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_bytes(MAGIC + version.encode() + b"\nwhatever")
    with pytest.raises(InputError, match="written by another version of Toposcope; save it again: toposcope save FILE"):
        read_packed(file, keep_degraded)


@pytest.fixture(scope="module")
def content(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    folder = tmp_path_factory.mktemp("content")
    file = save(load_whole(demo), folder / "saved")
    return file.read_bytes(), file


def test_damage_is_reported_or_changes_nothing(content: tuple[bytes, Path]) -> None:
    whole, file = content
    saved_facts = facts(read_packed(file, keep_every))
    broken = file.with_name("damaged")
    rng = random.Random(20251121)
    reported = 0
    for _ in range(300):
        at = rng.randrange(len(MAGIC) + 2, len(whole))
        before, after = whole[:at], whole[at + 1 :]
        flipped = bytes([whole[at] ^ rng.randrange(1, 256)])
        rest = rng.choice([b"", flipped + after])
        broken.write_bytes(before + rest)
        try:
            read_facts = facts(read_packed(broken, keep_every))
        except InputError as error:
            reported += "save it again" in str(error)
        else:
            assert read_facts == saved_facts
    assert reported > 295  # there are bits in the head of what zlib writes that say how hard it tried


def facts(snapshot: Snapshot) -> dict[str, object]:
    return {
        "nodes": snapshot.nodes,
        "pods": tuple(snapshot.pods or ()),
        "requested": dict(snapshot.requested),
        "topologies": snapshot.topologies,
        "published": snapshot.published,
        "warnings": snapshot.warnings,
        "taken_at": snapshot.taken_at,
        "catalogue": snapshot.catalogue,
    }


def test_changed_warning_or_time_is_damage(demo: Path, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    whole = dataclasses.replace(
        load(demo),
        taken_at=moment,
        warnings=("pods could not be seen",),
    )
    file = save(whole, tmp_path / "saved")
    before = read_packed(file, keep_degraded)
    assert before.warnings == whole.warnings
    assert before.taken_at == moment

    content = file.read_bytes()
    for at in range(len(MAGIC) + 2, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        file.write_bytes(damaged)
        with contextlib.suppress(InputError):
            again = read_packed(file, keep_degraded)
            assert facts(again) == facts(before)


def forge(file: Path, part: str, **fields: Any) -> None:
    """Replace fields in a part of the file, with a checksum that fits."""
    head = len(MAGIC) + 2
    content = file.read_bytes()
    parts = msgspec.msgpack.decode(content[head:], type=packed._File)
    kinds: Any = {"cluster": packed._Cluster, "pods": packed._Pods}
    honest: Any = packed._unzipped(getattr(parts, part), kinds[part], LIMIT, LIMIT)
    changes = {}
    for name, change in fields.items():
        value = getattr(honest, name)
        changes[name] = change(value)
    changed = msgspec.structs.replace(honest, **changes)
    forged = msgspec.structs.replace(parts, **{part: packed._zipped(changed)})
    file.write_bytes(content[:head] + msgspec.msgpack.encode(forged))


@pytest.fixture
def file(demo: Path, tmp_path: Path) -> Path:
    """A snapshot that may be damaged."""
    return save(load(demo), tmp_path / "saved")


def test_rows_and_tables_that_do_not_fit_together_are_reported(file: Path) -> None:
    forge(file, "pods", owners=lambda _owners: [])
    snapshot = read_packed(file, keep_degraded)
    with pytest.raises(InputError, match="a damaged snapshot; save it again: toposcope save FILE"):
        list(snapshot.pods or ())
    forge(file, "cluster", keys=lambda keys: [key * 2 for key in keys])
    with pytest.raises(InputError, match="a damaged snapshot"):
        read_packed(file, keep_degraded)


@pytest.mark.parametrize("table", ["keys", "strings", "taints", "allocatable", "conditions", "requested"])
def test_index_beyond_its_table_is_damage(file: Path, table: str) -> None:
    without_values: dict[str, Any] = {table: lambda _values: []}
    forge(file, "cluster", **without_values)
    with pytest.raises(InputError, match="a damaged snapshot"):
        read_packed(file, keep_degraded)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda part: part + b"\0", id="too-long"),
        pytest.param(lambda part: part[:-1], id="too-short"),
    ],
)
def test_part_that_does_not_end_where_it_should_is_damage(file: Path, damage: Callable[[bytes], bytes]) -> None:
    content = file.read_bytes()
    head = len(MAGIC) + 2
    parts = msgspec.msgpack.decode(content[head:], type=packed._File)
    damaged = msgspec.structs.replace(parts, cluster=damage(parts.cluster))
    file.write_bytes(content[:head] + msgspec.msgpack.encode(damaged))
    with pytest.raises(InputError, match="a damaged snapshot; save it again"):
        read_packed(file, keep_degraded)


def test_file_larger_than_its_limit_is_refused(file: Path) -> None:
    with file.open("ab") as out:
        out.write(bytes(1 << 17))
    with pytest.raises(InputError, match=r"saved: the snapshot has more than 0\.\d+ MiB; .*raise --from-limit"):
        read_packed(file, keep_degraded, 1 << 10)


def with_first(rows: list[Any], **changed: Any) -> list[Any]:
    """The rows, the first one with other values."""
    first, *others = rows
    return [msgspec.structs.replace(first, **changed), *others]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        pytest.param("strings", lambda strings: ["a b", *strings[1:]], id="label-value"),
        pytest.param("nodes", lambda nodes: with_first(nodes, name="a b"), id="name"),
        pytest.param("nodes", lambda nodes: with_first(nodes, values=[]), id="values-for-no-keys"),
    ],
)
def test_node_that_the_api_server_would_refuse_is_damage(
    file: Path, table: str, change: Callable[[list[Any]], list[Any]]
) -> None:
    forge(file, "cluster", **{table: change})
    with pytest.raises(InputError, match="a damaged snapshot; save it again"):
        read_packed(file, keep_degraded)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        pytest.param("pods", lambda pods: with_first(pods, name="a b"), id="name"),
        pytest.param("strings", lambda strings: [f"{text} b" for text in strings], id="namespace"),
    ],
)
def test_pod_that_the_api_server_would_refuse_is_damage(
    file: Path, table: str, change: Callable[[list[Any]], list[Any]]
) -> None:
    forge(file, "pods", **{table: change})
    snapshot = read_packed(file, keep_degraded)
    with pytest.raises(InputError, match="a damaged snapshot; save it again"):
        list(snapshot.pods or ())


def test_missing_pod_is_damage(file: Path) -> None:
    forge(file, "pods", pods=lambda pods: pods[:-1])
    snapshot = read_packed(file, keep_degraded)
    with pytest.raises(InputError, match="a damaged snapshot"):
        list(snapshot.pods or ())


def test_missing_node_is_damage(file: Path) -> None:
    forge(file, "cluster", nodes=lambda nodes: nodes[:-1])
    with pytest.raises(InputError, match="a damaged snapshot"):
        read_packed(file, keep_every)


def test_labels_anti_affinity_and_ports_of_pods_come_back(tmp_path: Path) -> None:
    lonely = pod("lonely", "gb200-01", 0)
    lonely["metadata"]["labels"] = {"app": "x"}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    lonely["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    lonely["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    file = tmp_path / "cluster.json"
    file.write_text(saved([*demo_nodes(most=1), lonely]))
    (before,) = load(file).pods or ()

    (after,) = load(save(load(file), tmp_path / "saved")).pods or ()

    assert before.pod_labels.known == (("app", "x"),)
    assert [str(port) for port in before.ports] == ["8080/TCP"]
    assert len(before.repels) == 1
    assert after == before


def test_older_file_says_what_it_lacks(demo: Path, tmp_path: Path) -> None:
    older = dataclasses.replace(load(demo), knows_pod_rules=False)
    path = save(older, tmp_path / "older")
    (warning,) = load(path).warnings
    assert warning == f"{path}: {packed.WITHOUT_RULES}"
