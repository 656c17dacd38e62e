"""KAI's and Kueue's Topologies and Kueue's ResourceFlavors: what their CRDs refuse, in the same words.

tests/apiserver/test_workload_checks.py gives the documents of these tests to the CRDs.
"""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document

pytestmark = pytest.mark.regression

LEVELS = "spec.levels"
FIRST_LEVEL = "spec.levels[0].nodeLabel"
NO_NODES = "no node carries this label, so the topology has no nodes"
DID_YOU_MEAN_RACK = "did you mean 'example.com/rack'?"
CREATE_ANEW = "delete the Topology and create it again, while nothing uses it"
BOTH_SYSTEMS = pytest.mark.parametrize("system", ["kai", "kueue"])


def read_topology(name: str, edits: Edits | None = None, *, before: Any = None) -> Read:
    return read(("KAI", "Kueue"), document(f"topologies/{name}", edits), CLUSTER, before=before)


def read_flavor(edits: Edits | None = None, *, before: Any = None) -> Read:
    return read("Kueue", document("topologies/flavor", edits), CLUSTER, before=before)


def levels(*keys: str) -> Edits:
    """Edits of a Topology that give it these levels."""
    return {LEVELS: [{"nodeLabel": key} for key in keys]}


@BOTH_SYSTEMS
def test_unchanged_topology_is_accepted(system: str) -> None:
    topology = document(f"topologies/{system}")
    answer = read(("KAI", "Kueue"), topology, CLUSTER, before=topology)
    assert answer.findings == []


@BOTH_SYSTEMS
def test_topology_without_levels_is_refused(system: str) -> None:
    answer = read_topology(system, levels())
    assert answer.findings == [
        error(
            f"{system}/topology-levels",
            LEVELS,
            "should have at least 1 items",
            fix="name the node labels, broadest first",
        )
    ]


@BOTH_SYSTEMS
def test_topology_of_more_than_sixteen_levels_is_refused(system: str) -> None:
    answer = read_topology(system, levels(*(f"example.com/l{number}" for number in range(17))))
    too_many, *not_carried = answer.findings
    assert too_many == error(
        f"{system}/topology-levels",
        LEVELS,
        "must have at most 16 items",
        fix="remove levels that no workload requests",
    )
    assert len(not_carried) == 17
    for number, finding in enumerate(not_carried):
        field = f"spec.levels[{number}].nodeLabel"
        assert finding == warning(f"{system}/topology-label", field, NO_NODES, fix=DID_YOU_MEAN_RACK)


@BOTH_SYSTEMS
def test_host_above_other_levels_is_refused(system: str) -> None:
    answer = read_topology(system, levels("kubernetes.io/hostname", "example.com/rack"))
    assert answer.findings == [
        error(
            f"{system}/topology-levels",
            LEVELS,
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
            fix="move it to the end",
        )
    ]


@BOTH_SYSTEMS
@pytest.mark.parametrize(
    "key",
    [
        pytest.param("Example.com/rack", id="capitals"),
        pytest.param("", id="empty"),
        pytest.param("x" * 317, id="too-long"),
    ],
)
def test_level_that_is_no_label_key_is_refused(system: str, key: str) -> None:
    answer = read_topology(system, levels(key))
    assert answer.findings == [
        error(
            f"{system}/topology-levels",
            FIRST_LEVEL,
            "should be the key of a node label",
            fix="a lower-case DNS prefix, a slash and a name",
        )
    ]


@pytest.mark.parametrize(
    ("system", "message"),
    [pytest.param("kai", "nodeLabel must be unique", id="kai"), pytest.param("kueue", "must be unique", id="kueue")],
)
def test_level_twice_is_refused(system: str, message: str) -> None:
    answer = read_topology(system, levels("example.com/rack", "example.com/rack"))
    assert answer.findings == [error(f"{system}/topology-levels", LEVELS, message, fix="name each label once")]


@pytest.mark.parametrize(
    ("system", "message"),
    [
        pytest.param("kai", "nodeLabel structure is immutable; only aliases may be edited", id="kai"),
        pytest.param("kueue", "field is immutable", id="kueue"),
    ],
)
def test_changed_levels_are_refused(system: str, message: str) -> None:
    existing = document(f"topologies/{system}", levels("example.com/rack"))
    answer = read_topology(system, levels("topology.kubernetes.io/zone"), before=existing)
    assert answer.findings == [error(f"{system}/topology-immutable", LEVELS, message, fix=CREATE_ANEW)]


def test_changed_levels_above_the_host_depend_on_kueues_version() -> None:
    existing = document("topologies/kueue", levels("example.com/rack", "kubernetes.io/hostname"))
    changed = levels("topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname")
    answer = read_topology("kueue", changed, before=existing)
    assert answer.findings == [
        warning(
            "kueue/topology-immutable",
            LEVELS,
            "Kueue before 0.20 rejects it: field is immutable; later versions keep kubernetes.io/hostname last",
            fix=f"before 0.20 {CREATE_ANEW}",
        )
    ]


def test_changed_levels_of_an_older_api_version_are_refused() -> None:
    older = {"apiVersion": "kueue.x-k8s.io/v1beta1"}
    existing = document("topologies/kueue", levels("example.com/rack", "kubernetes.io/hostname") | older)
    answer = read_topology(
        "kueue", levels("topology.kubernetes.io/zone", "kubernetes.io/hostname") | older, before=existing
    )
    assert answer.findings == [error("kueue/topology-immutable", LEVELS, "field is immutable", fix=CREATE_ANEW)]


def test_alias_may_be_added() -> None:
    existing = document("topologies/kai", levels("example.com/rack"))
    with_alias = {LEVELS: [{"nodeLabel": "example.com/rack", "alias": "shelf"}]}
    answer = read_topology("kai", with_alias, before=existing)
    assert answer.findings == []


def test_alias_twice_is_refused() -> None:
    zone = {"nodeLabel": "topology.kubernetes.io/zone", "alias": "a"}
    rack = {"nodeLabel": "example.com/rack", "alias": "a"}
    answer = read_topology("kai", {LEVELS: [zone, rack]})
    assert answer.findings == [
        error(
            "kai/topology-alias",
            LEVELS,
            "aliases must be unique within the topology; duplicated: a",
            fix="give each level an alias of its own",
        )
    ]


def test_alias_that_is_a_label_key_is_refused() -> None:
    zone = {"nodeLabel": "topology.kubernetes.io/zone", "alias": "example.com/rack"}
    rack = {"nodeLabel": "example.com/rack"}
    answer = read_topology("kai", {LEVELS: [zone, rack]})
    assert answer.findings == [
        error(
            "kai/topology-alias",
            LEVELS,
            "an alias must not equal a nodeLabel; conflicting: example.com/rack",
            fix="choose another alias",
        )
    ]


def test_label_that_no_node_carries_is_warned_of() -> None:
    answer = read_topology("kai", levels("example.com/rak"))
    assert answer.findings == [warning("kai/topology-label", FIRST_LEVEL, NO_NODES, fix=DID_YOU_MEAN_RACK)]


def test_empty_flavor_is_accepted() -> None:
    answer = read_flavor({"spec": {}})
    assert answer.findings == []


def test_flavor_with_topology_is_accepted() -> None:
    answer = read_flavor()
    assert answer.findings == []


def test_flavor_with_topology_and_no_node_labels_is_refused() -> None:
    answer = read_flavor({"spec.nodeLabels": None})
    assert answer.findings == [
        error(
            "kueue/flavor-labels",
            "spec",
            "at least one nodeLabel is required when topology is set",
            fix="set spec.nodeLabels to a label that the flavor's nodes carry",
        )
    ]


def test_unknown_topology_of_a_flavor_is_refused() -> None:
    answer = read_flavor({"spec.topologyName": "clutser"})
    assert answer.findings == [
        error(
            "kueue/topology-exists",
            "spec.topologyName",
            'there is no Topology "clutser" for TAS flavor "h100"',
            fix="did you mean 'cluster'?",
        )
    ]


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        pytest.param({"spec.nodeLabels.gpu": "b200"}, "nodeLabels", id="node-labels"),
        pytest.param({"spec.tolerations": [{"operator": "Exists"}]}, "tolerations", id="tolerations"),
    ],
)
def test_changed_nodes_of_a_flavor_with_topology_depend_on_kueues_version(edits: Edits, field: str) -> None:
    answer = read_flavor(edits, before=document("topologies/flavor"))
    assert answer.findings == [
        warning(
            "kueue/flavor-immutable",
            f"spec.{field}",
            f"Kueue before 0.20 rejects it: {field} are immutable when topologyName is set",
            fix="before 0.20 create a new ResourceFlavor",
        )
    ]


def test_changed_topology_of_a_flavor_is_refused() -> None:
    answer = read_flavor({"spec.topologyName": None}, before=document("topologies/flavor"))
    assert answer.findings == [
        error(
            "kueue/flavor-immutable",
            "spec.topologyName",
            "topologyName is immutable when topologyName is set",
            fix="create a new ResourceFlavor",
        )
    ]


def test_flavor_without_topology_may_change() -> None:
    existing = document("topologies/flavor", {"spec": {"nodeLabels": {"c": "d"}}})
    answer = read_flavor({"spec": {"nodeLabels": {"a": "b"}}}, before=existing)
    assert answer.findings == []
