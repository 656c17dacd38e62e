"""Run:ai's network topologies: what its API and KAI's Topology refuse of them."""

from typing import Any

import pytest
from tests.integrations.clusters import NODE_POOL
from tests.support.checking import Read, advice, error, read, warning
from tests.support.documents import Edits, document

pytestmark = pytest.mark.regression

KNOWN_LABELS = "there are: cloud.provider.com/topology-block, cloud.provider.com/topology-rack, kubernetes.io/hostname"

RACK = "cloud.provider.com/topology-rack"
BLOCK = "cloud.provider.com/topology-block"


def read_runai(name: str, edits: Edits | None = None, *, before: Any = None) -> Read:
    return read("Run:ai", document(f"runai/{name}", edits), NODE_POOL, before=before)


def test_topology_without_levels_is_refused() -> None:
    answer = read_runai("network-topology", {"levels": []})
    assert answer.findings == [
        error(
            "runai/topology-levels",
            "levels",
            "should have at least 1 items",
            fix="name the node labels, the farthest first",
        )
    ]


def test_level_twice_is_refused() -> None:
    answer = read_runai("network-topology", {"levels[0]": RACK})
    assert answer.findings == [
        error("runai/topology-levels", "levels[1]", "nodeLabel must be unique", fix="name each label once")
    ]


def test_empty_level_is_refused() -> None:
    answer = read_runai("network-topology", {"levels": [""]})
    assert answer.findings == [
        error(
            "runai/topology-levels",
            "levels[0]",
            "should be the key of a node label",
            fix="a lower-case DNS prefix, a slash and a name",
        )
    ]


def test_level_that_is_no_text_is_refused() -> None:
    answer = read_runai("network-topology", {"levels": [7]})
    assert answer.findings == [
        error("type", "levels[0]", "is 7, expected a string", fix="put it in quotes"),
        error(
            "runai/topology-levels",
            "levels[0]",
            "should be the key of a node label",
            fix="a lower-case DNS prefix, a slash and a name",
        ),
    ]


def test_host_above_other_levels_is_refused() -> None:
    answer = read_runai("network-topology", {"levels[0]": "kubernetes.io/hostname"})
    assert answer.findings == [
        error(
            "runai/topology-levels",
            "levels[0]",
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
            fix="move it to the end",
        )
    ]


def test_levels_in_reverse_order_are_warned_of() -> None:
    answer = read_runai("network-topology", {"levels": [RACK, BLOCK]})
    assert answer.findings == [
        warning(
            "runai/topology-order",
            "levels[1]",
            (
                "'cloud.provider.com/topology-block' comes after 'cloud.provider.com/topology-rack', but is "
                "broader in topology 'pool-a'"
            ),
            fix="list the levels from the farthest to the closest",
        )
    ]


def test_level_that_no_node_carries_is_warned_of() -> None:
    answer = read_runai("network-topology", {"levels": ["example.com/row", "kubernetes.io/hostname"]})
    assert answer.findings == [
        warning(
            "runai/topology-label",
            "levels[0]",
            "no node carries the label 'example.com/row', so the topology has no nodes",
            fix=KNOWN_LABELS,
        )
    ]


def test_topology_without_name_is_refused() -> None:
    answer = read_runai("network-topology", {"levels": ["kubernetes.io/hostname"], "name": ""})
    assert answer.findings == [error("runai/topology-name", "name", "a network topology needs a name", fix="name it")]


def test_topology_without_cluster_is_noted() -> None:
    answer = read_runai("network-topology", {"levels": ["kubernetes.io/hostname"], "clusterId": None})
    assert answer.findings == [
        advice(
            "runai/topology-cluster",
            "clusterId",
            "the API rejects a topology without clusterId",
            fix="set clusterId to the cluster's id",
        )
    ]


def test_more_than_sixteen_levels_are_refused() -> None:
    answer = read_runai("network-topology", {"levels": [f"example.com/l{number}" for number in range(17)]})
    too_many, *not_carried = answer.findings
    assert too_many == error(
        "runai/topology-levels",
        "levels",
        "must have at most 16 items",
        fix="remove levels that no workload requests",
    )
    assert len(not_carried) == 17
    for number, finding in enumerate(not_carried):
        assert finding == warning(
            "runai/topology-label",
            f"levels[{number}]",
            f"no node carries the label 'example.com/l{number}', so the topology has no nodes",
            fix=KNOWN_LABELS,
        )


def test_unchanged_levels_are_accepted() -> None:
    answer = read_runai("network-topology", before=document("runai/network-topology"))
    assert answer.findings == []


def test_changed_levels_are_refused() -> None:
    answer = read_runai(
        "network-topology", {"levels[1]": "kubernetes.io/hostname"}, before=document("runai/network-topology")
    )
    assert answer.findings == [
        error(
            "runai/topology-immutable",
            "levels",
            "levels are immutable in KAI's Topology",
            fix="create a new network topology and assign it to the node pool",
        )
    ]
