"""The demo's machines and the benchmark's nodes are deterministic, distinct and nested."""

import json
from collections import defaultdict
from itertools import islice, pairwise

from toposcope.api import label_keys
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY, ZONE_KEY, demo_cluster, large_cluster

LEVELS = (ZONE_KEY, BLOCK_KEY, RACK_KEY)


def test_the_demo_has_three_kinds_of_nodes() -> None:
    nodes = demo_cluster()
    kinds = [(node.machine.gpus[0].name, node.gpus) for node in nodes]
    assert kinds == [("NVIDIA GB200", 4)] * 18 + [("NVIDIA L40S", 4)] * 4 + [("NVIDIA H200", 8)] * 8
    assert nodes == demo_cluster()
    assert {node.labels[label_keys.HOSTNAME] for node in nodes} == {node.name for node in nodes}
    made = nodes[0].node_object()
    assert nodes[0].labels.items() <= made["metadata"]["labels"].items()
    assert made["status"]["allocatable"][label_keys.ALLOCATABLE_GPUS] == "4"
    assert not [key for key in made["metadata"]["labels"] if key.startswith(label_keys.PREFIX)]


def test_no_two_gpus_or_nics_of_the_demo_are_the_same() -> None:
    gpus = [gpu for node in demo_cluster() for gpu in node.machine.gpus]
    nics = [nic for node in demo_cluster() for nic in node.machine.nics]
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.serial for gpu in gpus}) == len(gpus)
    assert len({nic.node_guid for nic in nics}) == len(nics)


def test_one_rack_is_one_fabric_and_every_tray_has_its_slot() -> None:
    trays = [node.machine for node in demo_cluster() if node.labels[RACK_KEY] == "rack-1"]
    fabrics = {gpu.fabric for tray in trays for gpu in tray.gpus}
    places = [tray.gpus[0].platform for tray in trays]
    assert len(fabrics) == 1
    assert len({place.chassis for place in places if place}) == 1
    assert [place.tray for place in places if place] == list(range(18))
    assert [place.slot for place in places if place] == [*range(1, 9), *range(18, 28)]


def test_levels_are_known_keys_and_nest() -> None:
    assert set(LEVELS) <= BUILT_IN.level_keys
    demo = [node.labels for node in demo_cluster()]
    large = [node["metadata"]["labels"] for node in large_cluster(2000)]
    for labels in (demo, large):
        chain = (
            *LEVELS,
            *([label_keys.NVLINK_DOMAIN] if label_keys.NVLINK_DOMAIN in labels[0] else []),
            label_keys.HOSTNAME,
        )
        for broad, narrow in pairwise(chain):
            parents = defaultdict(set)
            for node in labels:
                parents[node[narrow]].add(node[broad])
            assert all(len(values) == 1 for values in parents.values()), (broad, narrow)
    assert len({node[BLOCK_KEY] for node in demo}) == 2
    assert len({node[RACK_KEY] for node in demo}) == 4


def test_large_clusters_repeat_and_weigh_what_real_nodes_weigh() -> None:
    nodes = list(large_cluster(100))
    sizes = {len(json.dumps(node, separators=(",", ":"))) for node in nodes}
    assert 24_000 < min(sizes) <= max(sizes) < 29_000
    assert nodes == list(islice(large_cluster(200), 100))
    assert nodes != list(large_cluster(100, seed=1))
    assert len({node["metadata"]["uid"] for node in nodes}) == 100
    assert {node["apiVersion"] + node["kind"] for node in nodes} == {"v1Node"}
