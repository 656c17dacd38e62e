"""Kueue's cluster and its workloads, as its integration suite has them.

The nodes are two blocks whose racks have the same names: a rack is known by its path.
"""

from collections.abc import Mapping
from typing import Any, Final

from tests.controller.cases.model import Machine, Says, Workload
from toposcope.api.label_keys import HOSTNAME

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
_GROUP: Final = "/apis/kueue.x-k8s.io/v1beta2"
_WORKLOADS: Final = f"{_GROUP}/namespaces/default/workloads"
OURS: Final = f"{_GROUP}/topologies/default"
SPEC: Final = {"publish": {"grove": "Never", "kai": "Never"}}
REUSED: Final = {
    "HierarchyConsistent": (
        "False",
        "LevelsDoNotNest",
        (
            "rack 'r1' lies under block 'b1' and 'b2' (2 of 2 values do so); "
            "schedulers treat it as one rack domain in each; right where each block uses the same names; where the "
            "two levels cut across each other, give each a ClusterTopology of its own"
        ),
    )
}
QUOTA: Final = "what Kueue admits, which is room and quota"


def machine(name: str, block: str, rack: str, *, host: bool = False, **more: Any) -> Machine:
    return Machine(name, {BLOCK: block, RACK: rack} | ({HOSTNAME: name} if host else {}), **more)


RACKS: Final = tuple(machine(f"{block}-{rack}", block, rack) for block in ("b1", "b2") for rack in ("r1", "r2"))
HOSTS: Final = tuple(
    machine(f"x{i}", block, rack, host=True)
    for i, (block, rack) in enumerate((("b1", "r1"), ("b1", "r2"), ("b2", "r1"), ("b2", "r2")), 1)
)


def workload(name: str, **request: Any) -> Workload:
    """A Workload with one pod set; `request` is its topologyRequest."""
    return pod_sets(name, {"worker": request})


def pod_sets(name: str, sets: Mapping[str, Mapping[str, Any]]) -> Workload:
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "podSets": [
                {"name": name, "count": 2, **({"topologyRequest": dict(request)} if request else {})}
                for name, request in sets.items()
            ]
        },
    }
    return Workload(_WORKLOADS, body)


def flavor(name: str) -> Workload:
    """A ResourceFlavor that uses the topology."""
    spec = {"nodeLabels": {"node-group": "tas"}, "topologyName": "default"}
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}
    return Workload(f"{_GROUP}/resourceflavors", body)


def racks(**says: Any) -> dict[str, Says]:
    return {
        "default": Says(
            **{"path": "block > rack", "domains": (2, 4), "conditions": REUSED, "kueue": (BLOCK, RACK), **says}
        )
    }


def hosts(**says: Any) -> dict[str, Says]:
    levels = (BLOCK, RACK, HOSTNAME)
    return {"default": Says("block > rack > host", (2, 4, 4), conditions=REUSED, kueue=levels, **says)}


def one(**says: Any) -> dict[str, Says]:
    """What is said of one node with block, rack and host."""
    settled = {"path": "block > rack > host", "domains": (1, 1, 1), "kueue": (BLOCK, RACK, HOSTNAME)}
    return {"default": Says(**{**settled, **says})}
