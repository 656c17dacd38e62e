"""OSMO's pools and backends: which topology keys they may have."""

import pytest
from tests.integrations.clusters import (
    BACKEND_WITH_DEFAULT_SCHEDULER,
    BACKEND_WITH_KAI,
    BACKEND_WITH_KAI_IN_CAPITALS,
    CLUSTER,
    POOL,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

POOL_KEYS = "pools.train-pool.topology_keys"


def pool(*topology_keys: dict[str, str]) -> Edits:
    """A pool of the backend `default` instead of a workflow."""
    train_pool = {"backend": "default", "topology_keys": [*topology_keys]}
    return {"workflow": None, "pools": {"train-pool": train_pool}}


def key(name: str, label: str) -> dict[str, str]:
    """A topology key of a pool, and the node label that carries it."""
    return {"key": name, "label": label}


SEVENTEEN = [key(f"l{number}", f"example.com/l{number}") for number in range(17)]


def read_osmo(edits: Edits | None = None, *, cluster: ClusterFacts = POOL) -> Read:
    return read("OSMO", document("osmo/workflow", edits), cluster)


def test_pool_of_a_backend_with_kai_may_have_keys() -> None:
    answer = read_osmo(
        pool(
            key("zone", "topology.kubernetes.io/zone"),
            key("rack", "example.com/rack"),
            key("host", "kubernetes.io/hostname"),
        ),
        cluster=BACKEND_WITH_KAI,
    )
    assert answer.findings == []


def test_backend_without_keys_may_have_any_scheduler() -> None:
    answer = read_osmo(
        {"workflow": None, "backends": [{"name": "default", "scheduler_settings": {"scheduler_type": "default"}}]},
        cluster=BACKEND_WITH_DEFAULT_SCHEDULER,
    )
    assert answer.findings == []


def test_keys_of_a_backend_without_topology_are_refused() -> None:
    answer = read_osmo(pool(key("zone", "topology.kubernetes.io/zone")), cluster=BACKEND_WITH_DEFAULT_SCHEDULER)
    assert answer.findings == [
        error(
            "osmo/pool-scheduler",
            POOL_KEYS,
            (
                'Topology keys cannot be set for pool "train-pool" because backend "default" uses scheduler '
                '"default" which does not support topology constraints'
            ),
            fix='set scheduler_settings.scheduler_type of the backend to "kai", or remove topology_keys',
        )
    ]


def test_scheduler_type_in_capitals_is_kai() -> None:
    answer = read_osmo(pool(key("zone", "topology.kubernetes.io/zone")), cluster=BACKEND_WITH_KAI_IN_CAPITALS)
    assert answer.findings == []


def test_two_keys_with_one_label_are_refused() -> None:
    answer = read_osmo(
        pool(key("zone", "topology.kubernetes.io/zone"), key("site", "topology.kubernetes.io/zone")), cluster=CLUSTER
    )
    assert answer.findings == [
        error(
            "osmo/pool-label-twice",
            f"{POOL_KEYS}[1].label",
            (
                "'topology.kubernetes.io/zone' is the label of two keys; OSMO accepts that, KAI's Topology "
                "does not: nodeLabel must be unique"
            ),
            fix="give each key a label of its own",
        )
    ]


def test_key_twice_in_a_pool_is_refused() -> None:
    answer = read_osmo(
        pool(key("zone", "topology.kubernetes.io/zone"), key("zone", "example.com/rack")), cluster=CLUSTER
    )
    assert answer.findings == [
        error(
            "osmo/pool-key-twice",
            f"{POOL_KEYS}[1].key",
            "'zone' is listed twice; OSMO uses the last one",
            fix="name each key once",
        )
    ]


def test_keys_in_reverse_order_are_warned_of() -> None:
    answer = read_osmo(
        pool(key("rack", "example.com/rack"), key("zone", "topology.kubernetes.io/zone")), cluster=CLUSTER
    )
    assert answer.findings == [
        warning(
            "osmo/pool-order",
            f"{POOL_KEYS}[1]",
            (
                "'topology.kubernetes.io/zone' comes after 'example.com/rack', but is broader in topology "
                "'cluster'; OSMO uses the order as written"
            ),
            fix="list the keys from coarse to fine",
        )
    ]


def test_host_above_other_keys_is_refused() -> None:
    answer = read_osmo(
        pool(key("host", "kubernetes.io/hostname"), key("zone", "topology.kubernetes.io/zone")), cluster=CLUSTER
    )
    assert answer.findings == [
        error(
            "osmo/pool-order",
            f"{POOL_KEYS}[0].label",
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
            fix="move it to the end",
        )
    ]


def test_label_that_no_node_carries_is_warned_of() -> None:
    answer = read_osmo(
        pool(key("zone", "topology.kubernetes.io/zone"), key("spine", "example.com/spine")), cluster=CLUSTER
    )
    assert answer.findings == [
        warning(
            "osmo/pool-label",
            f"{POOL_KEYS}[1].label",
            (
                "no node carries the label 'example.com/spine'; KAI ignores nodes without all labels of the pool, "
                "so no "
                "workflow with a topology starts"
            ),
            fix="there are: example.com/rack, kubernetes.io/hostname, topology.kubernetes.io/zone",
        )
    ]


def test_key_without_label_is_refused() -> None:
    answer = read_osmo({"workflow": None, "name": "p", "topology_keys": [{"key": "zone"}]}, cluster=CLUSTER)
    assert answer.findings == [
        error("osmo/pool-keys", "topology_keys[0].label", "Field required", fix="each entry has a key and a node label")
    ]


def test_more_than_sixteen_keys_are_refused() -> None:
    answer = read_osmo(pool(*SEVENTEEN), cluster=CLUSTER)
    too_many, *not_carried = answer.findings
    assert too_many == error(
        "osmo/pool-keys",
        POOL_KEYS,
        "KAI's Topology, which OSMO creates from these keys, allows 16 levels; the pool has 17",
        fix="remove the keys that no workflow uses",
    )
    assert len(not_carried) == 17
    for number, finding in enumerate(not_carried):
        assert finding == warning(
            "osmo/pool-label",
            f"{POOL_KEYS}[{number}].label",
            (
                f"no node carries the label 'example.com/l{number}'; KAI ignores nodes without all labels of the pool, "
                "so no workflow with a topology starts"
            ),
            fix="did you mean 'example.com/rack'?",
        )
