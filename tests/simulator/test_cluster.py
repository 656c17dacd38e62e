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
    kinds = []
    for node in demo_cluster():
        first_gpu = node.machine.gpus[0]
        kinds.append(f"{node.gpus} {first_gpu.name}")
    trays = kinds[:18]
    small_servers = kinds[18:22]
    large_servers = kinds[22:]
    assert trays == ["4 NVIDIA GB200"] * 18
    assert small_servers == ["4 NVIDIA L40S"] * 4
    assert large_servers == ["8 NVIDIA H200"] * 8


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
    allocatable = written["status"]["allocatable"]
    assert allocatable[label_keys.ALLOCATABLE_GPUS] == "4"
    for key in labels:
        assert not key.startswith(label_keys.PREFIX)


def test_no_two_gpus_or_nics_of_the_demo_are_the_same() -> None:
    uuids: Counter[object] = Counter()
    serials: Counter[object] = Counter()
    guids: Counter[object] = Counter()
    for node in demo_cluster():
        for gpu in node.machine.gpus:
            uuids[gpu.uuid] += 1
            serials[gpu.serial] += 1
        for nic in node.machine.nics:
            guids[nic.node_guid] += 1
    for identities in (uuids, serials, guids):
        assert set(identities.values()) == {1}


def test_rack_is_one_fabric_and_every_tray_has_its_slot() -> None:
    fabrics: set[object] = set()
    chassis = set()
    trays = []
    slots = []
    for node in demo_cluster():
        if node.labels[RACK_KEY] != "rack-1":
            continue
        for gpu in node.machine.gpus:
            fabrics.add(gpu.fabric)
        place = node.machine.gpus[0].platform
        assert place is not None
        chassis.add(place.chassis)
        trays.append(place.tray)
        slots.append(place.slot)
    assert len(fabrics) == 1
    assert len(chassis) == 1
    assert trays == list(range(18))
    assert slots == [*range(1, 9), *range(18, 28)]


def parents(nodes: Sequence[Labels], narrow: str, broad: str) -> dict[str, set[str]]:
    """The domains of a broad level that each of a narrow one is in."""
    found = defaultdict(set)
    for labels in nodes:
        domain = labels[narrow]
        found[domain].add(labels[broad])
    return found


def assert_nested(nodes: Sequence[Labels], *keys: str) -> None:
    """Each domain is in one of the level above it; the broadest level comes first."""
    for broad, narrow in pairwise(keys):
        domains = parents(nodes, narrow, broad)
        for domain, broader in domains.items():
            assert len(broader) == 1, (narrow, domain)


def test_levels_are_known_keys() -> None:
    assert set(LEVELS) <= BUILT_IN.level_keys


def test_levels_of_the_demo_nest() -> None:
    nodes = [node.labels for node in demo_cluster()]
    assert_nested(nodes, *LEVELS, label_keys.HOSTNAME)
    blocks = {labels[BLOCK_KEY] for labels in nodes}
    assert len(blocks) == 2
    racks = {labels[RACK_KEY] for labels in nodes}
    assert len(racks) == 4


def test_levels_of_a_large_cluster_nest() -> None:
    nodes = []
    for node in large_cluster(2000):
        nodes.append(node["metadata"]["labels"])
    assert_nested(
        nodes,
        *LEVELS,
        label_keys.NVLINK_DOMAIN,
        label_keys.HOSTNAME,
    )


def test_large_cluster_is_the_same_for_its_seed_and_grows_at_its_end() -> None:
    nodes = list(large_cluster(100))
    first_of_more = islice(large_cluster(200), 100)
    assert nodes == list(first_of_more)
    of_another_seed = list(large_cluster(100, seed=1))
    assert nodes != of_another_seed


def test_nodes_of_a_large_cluster_have_the_size_of_real_ones() -> None:
    uids = set()
    for node in large_cluster(100):
        assert node["apiVersion"] == "v1"
        assert node["kind"] == "Node"
        size = len(compact(node))
        assert 24_000 < size < 29_000
        uids.add(node["metadata"]["uid"])
    assert len(uids) == 100
