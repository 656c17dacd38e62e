"""OSMO's pools and backends: where they stand in a document, and each rule kept and broken."""

from typing import Any

import pytest

from tests.integrations.test_osmo import SPINE, pool
from tests.support.workloads import HOST, KNOWN, RACK, ZONE
from toposcope.integrations.osmo.pool import POOL, pools_of, schedulers_of
from toposcope.integrations.registry import with_documents
from toposcope.topology.levels import Level

KEYS = "pools.train-pool.topology_keys"


def reported(document: dict[str, Any], *others: dict[str, Any]) -> list[tuple[str, str, str]]:
    reading = POOL.read(document, with_documents(KNOWN, others))
    assert all(finding.fix for finding in reading.findings)
    return [(finding.severity, finding.field, finding.message) for finding in reading.findings]


def backend(scheduler: str) -> dict[str, Any]:
    return {"backends": [{"name": "default", "scheduler_settings": {"scheduler_type": scheduler}}]}


AS_IT_IS = "OSMO takes the order as it is"

PLAIN = {"topology_keys": [{"key": "zone", "label": ZONE.key}]}


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"pools": {"a": PLAIN, "b": PLAIN, "c": {"backend": "x"}}}, ["a", "b"]),
        ({"pools": [{"name": "a", **PLAIN}]}, ["a"]),
        ({"a": PLAIN, "b": PLAIN}, ["a", "b"]),
        ({"name": "a", **PLAIN}, ["a"]),
        (PLAIN, [""]),
    ],
)
def test_where_pools_stand(document: dict[str, Any], names: list[str]) -> None:
    assert POOL.claims(document)
    assert [(topology.name, topology.levels) for topology in pools_of(document)] == [(name, (ZONE,)) for name in names]


@pytest.mark.parametrize(
    "document",
    [{}, {"pools": {"a": {"backend": "x"}}}, {"pools": 7}, {"kind": "Pool", **PLAIN}, {"a": 1, "b": [PLAIN]}],
)
def test_what_is_no_pool(document: dict[str, Any]) -> None:
    assert not POOL.claims(document)


def test_backends() -> None:
    assert POOL.claims(backend("kai"))
    assert schedulers_of(backend("kai")) == {"default": "kai"}


def test_pools_that_keep_the_rules() -> None:
    assert reported(pool(ZONE, RACK, HOST), backend("kai")) == []
    assert reported(backend("default"), backend("default")) == []


def test_a_scheduler_without_topology() -> None:
    message = (
        'Topology keys cannot be set for pool "train-pool" because backend "default" uses scheduler "default" '
        "which does not support topology constraints"
    )
    assert reported(pool(ZONE), backend("default")) == [("error", KEYS, message)]
    assert reported(pool(ZONE), backend("KAI")) == []


def test_two_keys_with_one_label() -> None:
    ((severity, field, message),) = reported(pool(ZONE, Level("site", ZONE.key)))
    assert (severity, field) == ("error", f"{KEYS}[1].label")
    assert message == (
        f"{ZONE.key!r} is the label of two keys; OSMO accepts that, KAI's Topology does not: nodeLabel must be unique"
    )


def test_one_key_twice() -> None:
    assert reported(pool(ZONE, Level("zone", RACK.key))) == [
        ("error", f"{KEYS}[1].key", "'zone' is listed twice; OSMO uses the last one")
    ]


def test_the_order_is_taken_as_it_is() -> None:
    assert reported(pool(RACK, ZONE)) == [
        (
            "warning",
            f"{KEYS}[1]",
            f"{ZONE.key!r} comes after {RACK.key!r}, but is broader in topology 'cluster'; {AS_IT_IS}",
        )
    ]
    text = "the kubernetes.io/hostname label can only be used at the lowest level of topology"
    assert reported(pool(HOST, ZONE)) == [("error", f"{KEYS}[0].label", text)]


def test_a_label_that_no_node_carries() -> None:
    ((severity, field, message),) = reported(pool(ZONE, SPINE))
    assert (severity, field) == ("warning", f"{KEYS}[1].label")
    assert message.startswith("no node carries the label 'example.com/spine'")


def test_missing_fields_and_too_many_keys() -> None:
    assert reported({"name": "p", "topology_keys": [{"key": "zone"}]}) == [
        ("error", "topology_keys[0].label", "Field required")
    ]
    many = [Level(f"l{number}", f"example.com/l{number}") for number in range(17)]
    text = "KAI's Topology, which OSMO makes of these keys, takes 16 levels; here are 17"
    assert ("error", KEYS, text) in reported(pool(*many))
