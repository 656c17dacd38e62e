"""Node objects decoded down to what the controller keeps."""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from toposcope.api import label_keys
from toposcope.controller import node_decoder
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.hardware.rails import LeafSwitch
from toposcope.hierarchy.node import Hardware, NodeFacts, node_facts
from toposcope.simulator.cluster import RACK_KEY, ZONE_KEY, demo_cluster, large_cluster

TRACKED = [
    ZONE_KEY,
    RACK_KEY,
    label_keys.NVLINK_DOMAIN,
    label_keys.HOSTNAME,
]


def facts(node: dict[str, Any]) -> NodeFacts:
    return decoded([node])[0]


def decoded(nodes: Iterable[Any], decoder: NodeDecoder | None = None) -> list[NodeFacts]:
    """All of them by one decoder."""
    decoder = decoder or NodeDecoder(TRACKED)
    kept = []
    for node in nodes:
        _, _, found = decoder(msgspec.json.encode(node))
        kept.append(found)
    return kept


def labelled(name: str = "n1", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def smallest(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1"}, **parts}


def test_a_real_size_node_keeps_what_is_tracked() -> None:
    (node,) = large_cluster(1)
    raw = msgspec.json.encode(node)
    assert len(raw) > 20_000
    name, version, found = NodeDecoder(TRACKED)(raw)
    assert name == node["metadata"]["name"]
    assert version == "1"
    labels = node["metadata"]["labels"]
    keys = tuple(sorted(TRACKED))
    hardware = Hardware(
        labels[label_keys.NVLINK_DOMAIN],
        labels[label_keys.CHASSIS],
        "ok",
        4,
    )
    assert found == node_facts(
        name=name,
        uid=node["metadata"]["uid"],
        keys=keys,
        values=tuple(labels[key] for key in keys),
        is_ready=True,
        is_schedulable=True,
        gpus=4,
        hardware=hardware,
    )


@pytest.mark.parametrize("node", demo_cluster(), ids=lambda node: node.name)
def test_the_demo_s_nodes(node: Any) -> None:
    found = facts(node.node_object())
    assert found.name == node.name
    assert found.gpus == node.gpus
    assert found.traits.is_usable is True
    assert found.labels.items() <= node.labels.items()


@pytest.mark.parametrize(
    "node",
    [
        pytest.param({"metadata": {"name": "n1"}}, id="metadata-only"),
        pytest.param(
            {
                "metadata": {"name": "n1"},
                "spec": {},
                "status": {},
            },
            id="empty",
        ),
        pytest.param(
            {
                "metadata": {"name": "n1", "labels": None},
                "status": {"conditions": None, "allocatable": None},
            },
            id="null",
        ),
    ],
)
def test_a_node_that_was_just_made(node: dict[str, Any]) -> None:
    """A kubelet registers a Node before it fills in its status."""
    expected = node_facts(
        "n1",
        "",
        (),
        (),
        is_ready=False,
        is_schedulable=True,
        gpus=0,
    )
    assert facts(node) == expected


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        pytest.param("True", True, id="true"),
        pytest.param("False", False, id="false"),
        pytest.param("Unknown", False, id="unknown"),
        pytest.param("true", False, id="lower-case"),
        pytest.param("", False, id="empty"),
    ],
)
def test_ready_is_one_condition_of_many(status: str, ready: bool) -> None:
    conditions = [
        {"type": "Other", "status": "True"},
        {"type": "Ready", "status": status},
    ]
    found = facts(smallest(status={"conditions": conditions}))
    assert found.traits.is_ready is ready


def test_a_cordoned_node_is_not_schedulable() -> None:
    found = facts(smallest(spec={"unschedulable": True}))
    assert not found.traits.is_schedulable


@pytest.mark.parametrize(
    ("quantity", "gpus"),
    [
        pytest.param("8", 8, id="number"),
        pytest.param("0", 0, id="zero"),
        pytest.param("", 0, id="empty"),
        pytest.param("-1", 0, id="negative"),
        pytest.param("1.5", 0, id="fraction"),
        pytest.param("8Gi", 0, id="suffix"),
        pytest.param("٨", 0, id="arabic-digit"),
        pytest.param("²", 0, id="superscript"),
    ],
)
def test_quantities(quantity: str, gpus: int) -> None:
    allocatable = {label_keys.ALLOCATABLE_GPUS: quantity, "cpu": "2"}
    found = facts(smallest(status={"allocatable": allocatable}))
    assert found.gpus == gpus


@pytest.mark.parametrize(
    ("labels", "gpus"),
    [
        pytest.param(
            {label_keys.GPUS: "4", label_keys.GPU_COUNT: "8"},
            4,
            id="agent",
        ),
        pytest.param(
            {label_keys.GPU_COUNT: "4", "nvidia.com/gpu.replicas": "10"},
            4,
            id="gfd",
        ),
        pytest.param(
            {"nvidia.com/gpu.replicas": "10"},
            4,
            id="replicas",
        ),
        pytest.param({}, 40, id="offered"),
    ],
)
def test_time_slices_are_no_gpus(labels: dict[str, str], gpus: int) -> None:
    allocatable = {label_keys.ALLOCATABLE_GPUS: "40"}
    node = labelled(**labels)
    node["status"] = {"allocatable": allocatable}
    found = facts(node)
    assert found.traits.hardware.gpus == gpus


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("{}", id="empty"),
        pytest.param('{"metadata":{}}', id="no-name"),
        pytest.param('{"metadata":{"name":null}}', id="null-name"),
        pytest.param('{"metadata":{"name":"n","labels":[]}}', id="label-list"),
        pytest.param('{"metadata":{"name":"n","labels":{"a":1}}}', id="number-label"),
        pytest.param('{"metadata":{"name":"n"},"status":{"allocatable":{"nvidia.com/gpu":8}}}', id="number-quantity"),
        pytest.param("[]", id="list"),
    ],
)
def test_what_is_no_node_is_refused(raw: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        NodeDecoder(TRACKED)(raw.encode())


def test_values_of_any_script() -> None:
    labels = {RACK_KEY: "стойка-😀", "other": "x"}
    found = facts(labelled(**labels))
    assert found.label(RACK_KEY) == "стойка-😀"


def test_nodes_share_keys_and_values_but_not_names() -> None:
    first, second = decoded(large_cluster(2))
    assert first.keys is second.keys
    for key in (ZONE_KEY, RACK_KEY, label_keys.NVLINK_DOMAIN):
        assert first.label(key) is second.label(key)
    assert first.label(label_keys.HOSTNAME) is first.name


def test_the_nodes_of_a_rack_share_all_but_their_names() -> None:
    kept = decoded(large_cluster(26))
    # 18 trays, four nodes that NVLink does not leave, and the first trays of a third rack.
    sizes = Counter(id(node.traits) for node in kept)
    assert list(sizes.values()) == [18, 4, 4]
    for node in kept:
        assert node.label(label_keys.HOSTNAME) == node.name


def cabled(name: str, port: int, annotation: str | None = None) -> dict[str, Any]:
    """A node of which two rails are known, both by a port of this number."""
    rails: list[dict[str, str] | None] = [None]
    for rail in (1, 2):
        rails.append(
            {
                "nic": f"mlx5_{rail}",
                "switch": f"leaf{rail}",
                "id": f"mac:{rail}",
                "port": f"p{port}",
            }
        )
    annotations = {
        label_keys.RAILS: annotation or json.dumps(rails),
        label_keys.MATRIX: "{}",
    }
    return {
        "metadata": {
            "name": name,
            "labels": {"rack": "r"},
            "annotations": annotations,
        },
    }


def test_nodes_share_switches_by_unit_and_ports_by_place() -> None:
    nodes = [cabled("a", 1), cabled("b", 2), cabled("c", 1)]
    first, second, third = decoded(nodes)
    assert first.traits.switches == (
        None,
        LeafSwitch("leaf1", "mac:1"),
        LeafSwitch("leaf2", "mac:2"),
    )
    assert second.ports == (None, ("mlx5_1", "p2"), ("mlx5_2", "p2"))
    assert first.traits is second.traits
    assert first.ports is third.ports
    assert first.ports != second.ports


def test_what_no_agent_writes_of_its_rails_is_left() -> None:
    (node,) = decoded([cabled("a", 1, '[{"nic":"mlx5_0"}]')])
    assert node.traits.switches == ()
    assert node.ports == ()


def test_ports_that_come_and_go_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_decoder, "_GENERATION_NODES", 50)
    decoder = NodeDecoder(["rack"])
    for port in range(1000):
        decoded([cabled("a", port)], decoder)
    ports = decoder._ports
    assert len(ports.now) + len(ports.before) <= 102


def test_a_thousand_nodes_are_a_few_hundred_bytes_each() -> None:
    kept = decoded(large_cluster(1000))
    # By identity: what several nodes share counts once.
    sizes: dict[int, int] = {}
    for node in kept:
        for part in (node, node.name, node.uid, node.keys, node.values, *node.values):
            sizes[id(part)] = sys.getsizeof(part)
    assert sum(sizes.values()) / 1000 < 400


@pytest.mark.regression
def test_values_that_come_and_go_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_decoder, "_GENERATION_NODES", 100)
    decoder = NodeDecoder(["rack"])
    stays = labelled(rack="stays")
    (first,) = decoded([stays], decoder)
    for number in range(1000):
        comes = labelled(rack=f"rack-{number}")
        other, same = decoded([comes, stays], decoder)
        assert other.values == (f"rack-{number}",)
        assert same.traits is first.traits
        for shared in (decoder._strings, decoder._traits):
            assert len(shared.now) + len(shared.before) <= 204


def test_nodes_share_from_one_generation_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_decoder, "_GENERATION_NODES", 50)
    order = random.Random(3).sample(range(1000), 1000)
    nodes = []
    for i in order:
        nodes.append(labelled(f"n{i}", rack=f"rack-{i % 4}"))
    kept = decoded(nodes, NodeDecoder(["rack"]))
    traits = {id(node.traits) for node in kept}
    assert len(traits) == 4
    values = set()
    for node in kept:
        for value in node.traits.values:
            values.add(id(value))
    assert len(values) == 4


def test_keys_that_a_spec_adds_are_kept_from_then_on() -> None:
    node = labelled(a="1", b="2")
    decoder = NodeDecoder(["a"])
    (before,) = decoded([node], decoder)
    assert before.labels == {"a": "1"}
    assert not decoder.track(["a"])
    assert not decoder.track([])
    assert decoder.track(["b", "a"])
    assert not decoder.track(iter(["b"]))
    (after,) = decoded([node], decoder)
    assert after.labels == {"a": "1", "b": "2"}


@pytest.mark.regression
@pytest.mark.parametrize(
    ("label", "gpus"),
    [
        pytest.param("4", 4, id="number"),
        pytest.param("0", 0, id="zero"),
        pytest.param(None, 8, id="none"),
        pytest.param("", 8, id="empty"),
        pytest.param("eight", 8, id="word"),
        pytest.param("٤", 8, id="arabic-digit"),
        pytest.param("-1", 8, id="negative"),
        pytest.param("1.5", 8, id="fraction"),
    ],
)
def test_gpus_are_those_that_the_agent_counted_else_those_that_are_offered(label: str | None, gpus: int) -> None:
    node = labelled()
    if label is not None:
        node = labelled(**{label_keys.GPUS: label})
    node["status"] = {"allocatable": {label_keys.ALLOCATABLE_GPUS: "8"}}
    found = facts(node)
    assert found.traits.hardware.gpus == gpus


def test_nodes_of_one_kind_share_what_their_agents_say() -> None:
    kept = [node.traits.hardware for node in decoded(large_cluster(26))]
    identities = {id(hardware) for hardware in kept}
    assert len(identities) == 3
    assert len(set(kept)) == 3
    without_domain = {hardware.domain is None for hardware in kept}
    assert without_domain == {True, False}


def test_a_node_of_its_own_domain_has_none_that_spans_nodes() -> None:
    ours = {
        label_keys.NVLINK_DOMAIN: "n1",
        label_keys.STATE: "degraded",
    }
    found = facts(labelled(**ours))
    assert found.traits.hardware == Hardware(None, "", "degraded", 0)


def test_nodes_with_another_hostname_label_share_as_others_do() -> None:
    """As where a cloud names its nodes and kubelet its host: all else would be one kind a node."""
    nodes = []
    for i in range(2):
        labels = {
            label_keys.HOSTNAME: f"ip-{i}",
            label_keys.NVLINK_DOMAIN: f"node-{i}",
            RACK_KEY: "r",
        }
        nodes.append(labelled(f"node-{i}", **labels))
    first, second = decoded(nodes)
    assert first.traits is second.traits
    assert second.labels == {
        label_keys.HOSTNAME: "ip-1",
        label_keys.NVLINK_DOMAIN: "node-1",
        RACK_KEY: "r",
    }
