"""The demo's machines and the benchmark's nodes are deterministic, distinct and nested."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise

from toposcope.api import label_keys
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY, ZONE_KEY, demo_cluster, large_cluster
from toposcope.text import compact

Labels = Mapping[str, str]
LEVELS = (ZONE_KEY, BLOCK_KEY, RACK_KEY)


def test_demo_has_three_kinds_of_nodes() -> None:
    kinds = [(node.machine.gpus[0].name, node.gpus) for node in demo_cluster()]
    assert kinds[:18] == [("NVIDIA GB200", 4)] * 18
    assert kinds[18:22] == [("NVIDIA L40S", 4)] * 4
    assert kinds[22:] == [("NVIDIA H200", 8)] * 8


def test_demo_is_the_same_each_time() -> None:
    assert demo_cluster() == demo_cluster()


def test_nodes_of_the_demo_have_their_names_as_hosts() -> None:
    for node in demo_cluster():
        assert node.labels[label_keys.HOSTNAME] == node.name


def test_node_of_the_demo_has_what_kubelet_writes_and_no_agent() -> None:
    first = demo_cluster()[0]
    written = first.node_object()
    labels = written["metadata"]["labels"]
    assert first.labels.items() <= labels.items()
    assert written["status"]["allocatable"][label_keys.ALLOCATABLE_GPUS] == "4"
    for key in labels:
        assert not key.startswith(label_keys.PREFIX)


def test_no_two_gpus_or_nics_of_the_demo_are_the_same() -> None:
    uuids: Counter[object] = Counter()
    serials: Counter[object] = Counter()
    guids: Counter[object] = Counter()
    for node in demo_cluster():
        uuids.update(gpu.uuid for gpu in node.machine.gpus)
        serials.update(gpu.serial for gpu in node.machine.gpus)
        guids.update(nic.node_guid for nic in node.machine.nics)
    for identities in (uuids, serials, guids):
        assert set(identities.values()) == {1}


def test_rack_is_one_fabric_and_every_tray_has_its_slot() -> None:
    trays = [node.machine for node in demo_cluster() if node.labels[RACK_KEY] == "rack-1"]
    fabrics: set[object] = set()
    places = []
    for tray in trays:
        fabrics.update(gpu.fabric for gpu in tray.gpus)
        if place := tray.gpus[0].platform:
            places.append(place)
    assert len(fabrics) == 1
    assert len({place.chassis for place in places}) == 1
    assert [place.tray for place in places] == list(range(18))
    assert [place.slot for place in places] == [*range(1, 9), *range(18, 28)]


def parents(nodes: Sequence[Labels], narrow: str, broad: str) -> dict[str, set[str]]:
    """The domains of a broad level that each of a narrow one is in."""
    found = defaultdict(set)
    for labels in nodes:
        found[labels[narrow]].add(labels[broad])
    return found


def assert_nested(nodes: Sequence[Labels], *keys: str) -> None:
    """Each domain is in one of the level above it; the broadest level comes first."""
    for broad, narrow in pairwise(keys):
        for domain, broader in parents(nodes, narrow, broad).items():
            assert len(broader) == 1, (narrow, domain)


def test_levels_are_known_keys() -> None:
    assert set(LEVELS) <= BUILT_IN.level_keys


def test_levels_of_the_demo_nest() -> None:
    nodes = [node.labels for node in demo_cluster()]
    assert_nested(nodes, *LEVELS, label_keys.HOSTNAME)
    assert len({labels[BLOCK_KEY] for labels in nodes}) == 2
    assert len({labels[RACK_KEY] for labels in nodes}) == 4


def test_levels_of_a_large_cluster_nest() -> None:
    nodes = [node["metadata"]["labels"] for node in large_cluster(2000)]
    assert_nested(nodes, *LEVELS, label_keys.NVLINK_DOMAIN, label_keys.HOSTNAME)


def test_large_cluster_is_the_same_for_its_seed_and_grows_at_its_end() -> None:
    nodes = list(large_cluster(100))
    assert nodes == list(islice(large_cluster(200), 100))
    assert nodes != list(large_cluster(100, seed=1))


def test_nodes_of_a_large_cluster_have_the_size_of_real_ones() -> None:
    uids = set()
    for node in large_cluster(100):
        assert node["apiVersion"] == "v1"
        assert node["kind"] == "Node"
        assert 24_000 < len(compact(node)) < 29_000
        uids.add(node["metadata"]["uid"])
    assert len(uids) == 100
