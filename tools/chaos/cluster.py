"""The cluster before Toposcope is installed.

It has Nodes, and objects of others that must never change.
"""

import copy
import functools
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

from tools.apiserver.client import AdminApi
from tools.chaos.machines import Machine
from toposcope.api.label_keys import GPU_PRESENT, HOSTNAME
from toposcope.simulator import manifests
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY, REGION_KEY, ZONE_KEY, large_cluster
from toposcope.simulator.node_object import node_object

TOPOLOGIES: Final = "/apis/gpu.topology/v1alpha1/clustertopologies"
GROVE: Final = "/apis/grove.io/v1alpha1/clustertopologybindings"
KAI: Final = "/apis/kai.scheduler/v1alpha1/topologies"
KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta1/topologies"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/namespaces/toposcope-system/pods"
COLLECTIONS: Final = {"grove": GROVE, "kai": KAI, "kueue": KUEUE}
PUBLISHED: Final = tuple(COLLECTIONS.values())
LOST: Final = BLOCK_KEY
"""The label of a level that Nodes may lose and regain."""
BEAT: Final = "example.com/beat"
"""The annotation that somebody keeps changing: a Node of a living cluster never stands still."""

CLIQUE: Final = "nvidia.com/gpu.clique"
"""The label that NVIDIA's DRA driver writes, and removes when it stops."""
DRA_DRIVER: Final = "example.com/dra-driver"
"""The label of Nodes that it runs on: the compute trays."""

_SERVERS: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_PROFILES: Final = (
    "gb200-nvl72-tray",
    "dgx-h200",
    "l40s-4",
    "gb200-nvl72-tray",
    "hgx-a100-4",
    "dgx-h200",
)
_TRAY: Final = "gb200-nvl72-tray"
_FABRIC: Final = "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766"
"""What NVML says on a tray."""
_GPUS: Final = {"gb200-nvl72-tray": 4, "dgx-h200": 8, "l40s-4": 4, "hgx-a100-4": 4}
_OTHER_NODES: Final = 22
_HERE: Final = Path(__file__).parent


def crds() -> dict[str, dict[str, Any]]:
    """Name of each published kind to a CRD for it: small stand-ins."""
    kueue = yaml.load(
        (_HERE / "kueue_topology_crd.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
    )
    return {
        "grove": manifests.crd("grove/binding"),
        "kai": manifests.crd("kai/topology"),
        "kueue": kueue,
    }


def machines(count: int, folder: Path) -> list[Machine]:
    """So many machines with an agent each."""
    all_machines = []
    for number in range(count):
        profile = _PROFILES[number % len(_PROFILES)]
        file = folder / f"faults-{number}.yaml"
        file.write_text("{}", encoding="utf-8")
        all_machines.append(Machine(f"machine-{number}", profile, _GPUS[profile], file))
    return all_machines


def machine_node(machine: Machine) -> dict[str, Any]:
    """The Node of a machine before an agent has seen it, with what belongs to others on it."""
    number = int(machine.node.rpartition("-")[2])
    labels = {
        HOSTNAME: machine.node,
        GPU_PRESENT: "true",
        REGION_KEY: "region-1",
        ZONE_KEY: "region-1-a",
        BLOCK_KEY: "block-9000",
        RACK_KEY: f"rack-9000{number % 3}",
        "example.com/pool": f"pool-{number}",
        "gpu.topology.example.com/lookalike": "not-ours",
    }
    if machine.profile == _TRAY:
        labels |= {DRA_DRIVER: "present", CLIQUE: _FABRIC}
    node = bare(node_object(machine.node, labels, machine.gpus, uid="0"))
    node["metadata"]["annotations"] |= {"example.com/note": "keep", BEAT: "0"}
    node["spec"] = {
        "taints": [
            {
                "key": "nvidia.com/gpu",
                "value": "present",
                "effect": "NoSchedule",
            }
        ]
    }
    return node


@functools.cache
def _other_nodes() -> str:
    return json.dumps([bare(node) for node in large_cluster(_OTHER_NODES)])


def other_nodes() -> list[dict[str, Any]]:
    """The rest of the cluster: nodes whose labels were written once and then left alone."""
    nodes: list[dict[str, Any]] = json.loads(_other_nodes())
    return nodes


def passing_node() -> dict[str, Any]:
    """A Node like the others, that comes and goes."""
    node = other_nodes()[0]
    node["metadata"] |= {
        "name": "passing",
        "labels": {**node["metadata"]["labels"], HOSTNAME: "passing"},
    }
    return node


def foreign_objects() -> list[tuple[str, dict[str, Any]]]:
    """Objects of Grove, KAI and Kueue that somebody else made, each with its collection.

    Two of them have a name that we want.
    """
    paths = {}
    for path in PUBLISHED:
        group = path.split("/")[2]
        paths[group] = path

    text = (_HERE / "foreign_objects.yaml").read_text(encoding="utf-8")
    objects = []
    for document in yaml.load_all(text, yaml.CSafeLoader):
        group, _, _ = document["apiVersion"].partition("/")
        objects.append((paths[group], document))
    return objects


def topologies() -> list[dict[str, Any]]:
    """The ClusterTopologies, one of each kind.

    One has everything. One has a name that others have taken for what it would publish. One has a
    level from the DRA driver's label and is not published.
    """
    everything = {
        "required": ["rack"],
        "gracePeriod": "30s",
    }
    taken_spec = {
        "nodeSelector": {"matchLabels": {ZONE_KEY: "region-1-a"}},
    }
    cliques = {
        "nodeSelector": {"matchLabels": {DRA_DRIVER: "present"}},
        "levels": [
            {"domain": "rack", "key": RACK_KEY},
            {"domain": "nvlink-domain", "key": CLIQUE},
            {"domain": "host", "key": HOSTNAME},
        ],
        "required": ["nvlink-domain"],
        "publish": dict.fromkeys(COLLECTIONS, "Never"),
    }
    return [
        _topology("cluster", everything),
        _topology("taken", taken_spec),
        _topology("cliques", cliques),
    ]


def _topology(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod(name: str, account: str, node: str) -> dict[str, Any]:
    """A pod of a service account on a node, for a token to be bound to: nothing runs in it."""
    path = _HERE / "pod.yaml"
    text = path.read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    document["metadata"] = {"name": name}
    spec = document["spec"]
    spec["nodeName"] = node
    spec["serviceAccountName"] = account
    return document


def present_pod(api: AdminApi, wanted: dict[str, Any]) -> dict[str, Any]:
    """The pod of this name that the server has, created where there is none.

    Raises AssertionError.
    """
    name = wanted["metadata"]["name"]
    code, answer = api.request("GET", f"{PODS}/{name}")
    if code == HTTPStatus.NOT_FOUND:
        return api.create(PODS, wanted)
    assert code == HTTPStatus.OK, answer  # noqa: S101 - as `AdminApi.create`: what a fault reports
    return answer


def bare(document: dict[str, Any]) -> dict[str, Any]:
    """A copy without what the API server adds."""
    kept = copy.deepcopy(document)
    for name in _SERVERS:
        kept["metadata"].pop(name, None)
    return kept
