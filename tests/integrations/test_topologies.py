"""KAI's and Kueue's Topologies and Kueue's ResourceFlavor: what their CRDs refuse, in the same words."""

from typing import Any

import pytest

from tests.support.workloads import HOST, KNOWN, RACK, ZONE, Object, reported
from toposcope.integrations.framework.system import Reading, System
from toposcope.integrations.kai.topology import TOPOLOGY as KAI_TOPOLOGY
from toposcope.integrations.kueue.topology import FLAVOR
from toposcope.integrations.kueue.topology import TOPOLOGY as KUEUE_TOPOLOGY

KAI, KUEUE = "kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta2"
READERS: dict[str, System] = {KAI: KAI_TOPOLOGY, KUEUE: KUEUE_TOPOLOGY}


def topology(version: str, *levels: Any) -> Object:
    entries = [{"nodeLabel": level} if isinstance(level, str) else level for level in levels]
    return {"apiVersion": version, "kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": entries}}


def flavor(**spec: Any) -> Object:
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "h100"}, "spec": spec}


def read(document: Object, before: Object | None = None) -> Reading:
    system = FLAVOR if document["kind"] == "ResourceFlavor" else READERS[document["apiVersion"]]
    assert system.claims(document)
    reading = system.read(document, KNOWN, before)
    assert reading.workload is None
    return reading


@pytest.mark.parametrize("version", READERS)
def test_a_topology_without_fault(version: str) -> None:
    document = topology(version, ZONE.key, RACK.key, HOST.key)
    assert read(document, document).findings == ()


@pytest.mark.parametrize(
    ("levels", "field", "message"),
    [
        ((), "spec.levels", "should have at least 1 items"),
        ([f"example.com/l{n}" for n in range(17)], "spec.levels", "must have at most 16 items"),
        (
            (HOST.key, RACK.key),
            "spec.levels",
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        ),
        (("Example.com/rack",), "spec.levels[0].nodeLabel", "should be the key of a node label"),
        (("",), "spec.levels[0].nodeLabel", "should be the key of a node label"),
        (("x" * 317,), "spec.levels[0].nodeLabel", "should be the key of a node label"),
    ],
)
@pytest.mark.parametrize("version", READERS)
def test_what_both_refuse(version: str, levels: Any, field: str, message: str) -> None:
    assert ("error", field, message) in reported(read(topology(version, *levels)))


def test_each_label_once() -> None:
    twice = (RACK.key, RACK.key)
    assert reported(read(topology(KAI, *twice))) == [("error", "spec.levels", "nodeLabel must be unique")]
    assert reported(read(topology(KUEUE, *twice))) == [("error", "spec.levels", "must be unique")]


def test_levels_do_not_change() -> None:
    kai, kueue = topology(KAI, RACK.key), topology(KUEUE, RACK.key)
    text = "nodeLabel structure is immutable; only aliases may be edited"
    assert reported(read(topology(KAI, ZONE.key), kai)) == [("error", "spec.levels", text)]
    assert read(topology(KAI, {"nodeLabel": RACK.key, "alias": "shelf"}), kai).findings == ()
    assert reported(read(topology(KUEUE, ZONE.key), kueue)) == [("error", "spec.levels", "field is immutable")]


def test_aliases() -> None:
    one, other = {"nodeLabel": ZONE.key, "alias": "a"}, {"nodeLabel": RACK.key, "alias": "a"}
    text = "aliases must be unique within the topology; duplicated: a"
    assert reported(read(topology(KAI, one, other))) == [("error", "spec.levels", text)]
    clash = f"an alias must not equal a nodeLabel; conflicting: {RACK.key}"
    document = topology(KAI, {"nodeLabel": ZONE.key, "alias": RACK.key}, RACK.key)
    assert reported(read(document)) == [("error", "spec.levels", clash)]


def test_a_label_that_no_node_carries_empties_the_topology() -> None:
    (finding,) = read(topology(KAI, "example.com/rak")).findings
    assert (finding.rule, finding.severity, finding.fix) == (
        "kai/topology-label",
        "warning",
        "did you mean 'example.com/rack'?",
    )


def test_flavors() -> None:
    labels = {"gpu": "h100"}
    assert read(flavor()).findings == ()
    assert read(flavor(nodeLabels=labels, topologyName="cluster")).findings == ()
    needed = "at least one nodeLabel is required when topology is set"
    assert reported(read(flavor(topologyName="cluster"))) == [("error", "spec", needed)]
    missing = 'there is no Topology "clutser" for TAS flavor "h100"'
    assert reported(read(flavor(nodeLabels=labels, topologyName="clutser"))) == [
        ("error", "spec.topologyName", missing)
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodeLabels": {"gpu": "b200"}}, "nodeLabels are immutable when topologyName is set"),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations are immutable when topologyName is set"),
        ({"topologyName": None}, "topologyName is immutable when topologyName is set"),
    ],
)
def test_flavors_with_a_topology_do_not_change(change: Object, message: str) -> None:
    spec = {"nodeLabels": {"gpu": "h100"}, "topologyName": "cluster"}
    assert message in [text for _, _, text in reported(read(flavor(**spec | change), flavor(**spec)))]
    assert read(flavor(nodeLabels={"a": "b"}), flavor(nodeLabels={"c": "d"})).findings == ()
