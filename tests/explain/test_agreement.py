"""`check`, `explain` and the page's Check on one cluster: whatever schedulers have there, all three say the same."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.explain.waiting import Object, binding, cluster_topology, kai_topology, levels_of, pod
from tests.support.documents import read_manifest
from tests.support.paths import ROOT
from tests.support.saved import demo_nodes, saved
from tests.support.saved import pod as running_pod
from toposcope.explain.context import Context
from toposcope.explain.diagnosis import Diagnosis
from toposcope.explain.object_store import ObjectStore, ref_of
from toposcope.hierarchy.platforms import KEYS
from toposcope.integrations.kueue.api import READ
from toposcope.integrations.registry import PUBLISHED
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.ui.checking import checked

RACK = "cloud.google.com/gce-topology-subblock"
LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "cloud.google.com/gce-topology-block",
    "rack": RACK,
    "nvlink-domain": "gpu.topology/nvlink-domain",
    "host": "kubernetes.io/hostname",
}
OUTER_LEVELS = {domain: LEVELS[domain] for domain in ("zone", "host")}
LEVELS_WITH_ONE_GONE = {"zone": LEVELS["zone"], "gone": "example.com/gone", **LEVELS}
SERVED = [*(kind.name for kind in PUBLISHED), *(kind.name for kind in READ)]
assert set(LEVELS) <= set(KEYS)


def grove(levels: dict[str, str], name: str = "cluster") -> Object:
    """What Grove reads."""
    return binding(*levels.items(), name=name)


def kai(levels: dict[str, str], name: str = "cluster") -> list[Object]:
    """What KAI reads, and the Topology that OSMO has it read."""
    of_osmo = f"osmo-pool-osmo-{name}-topology"
    return [kai_topology(*levels.values(), name=name), kai_topology(*levels.values(), name=of_osmo)]


def kueue(levels: dict[str, str], name: str = "cluster") -> Object:
    """What Kueue reads."""
    return kueue_object("Topology", name, {"levels": [{"nodeLabel": key} for key in levels.values()]})


def kueue_object(kind: str, name: str, spec: Object) -> Object:
    """An object of Kueue's API."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def kueue_queue() -> list[Object]:
    """A LocalQueue `gpus` with more quota than anybody needs."""
    covered = ["cpu", "memory", "nvidia.com/gpu"]
    quotas = [{"name": name, "nominalQuota": "100000Gi"} for name in covered]
    flavors = [{"name": "gpu", "resources": quotas}]
    groups = [{"coveredResources": covered, "flavors": flavors}]
    local_queue = kueue_object("LocalQueue", "gpus", {"clusterQueue": "gpus"})
    local_queue["metadata"]["namespace"] = "ml"
    return [
        kueue_object("ResourceFlavor", "gpu", {"topologyName": "cluster"}),
        kueue_object("ClusterQueue", "gpus", {"resourceGroups": groups, "namespaceSelector": {}}),
        local_queue,
    ]


@dataclass(frozen=True)
class State:
    """What schedulers have in the cluster, the APIs that it does not serve, and the systems whose workload is well."""

    topologies: list[Object]
    well: set[str]
    unserved: tuple[str, ...] = ()


EXCLUSIVE = {"lws", "jobset"}
"""They go by labels alone."""
EVERY_SYSTEM = {"kai", "kueue", "grove", "dynamo", "runai", "osmo", *EXCLUSIVE}
STATES = {
    "all-there": State([grove(LEVELS), *kai(LEVELS), kueue(LEVELS)], EVERY_SYSTEM),
    "none-there": State([], EXCLUSIVE),
    "not-served": State([], EXCLUSIVE, unserved=("grove", "kai", "kueue")),
    "another-name": State([grove(LEVELS, "other"), *kai(LEVELS, "other"), kueue(LEVELS, "other")], EXCLUSIVE),
    "without-the-level": State([grove(OUTER_LEVELS), *kai(OUTER_LEVELS), kueue(OUTER_LEVELS)], EXCLUSIVE),
    "a-level-whose-label-is-gone": State(
        [grove(LEVELS_WITH_ONE_GONE), *kai(LEVELS_WITH_ONE_GONE), kueue(LEVELS_WITH_ONE_GONE)], EXCLUSIVE
    ),
    "nothing-for-kai": State([grove(LEVELS), kueue(LEVELS)], {"kueue", *EXCLUSIVE}),
    "kai-not-served": State([grove(LEVELS), kueue(LEVELS)], {"kueue", *EXCLUSIVE}, unserved=("kai",)),
    "kai-without-the-level": State([grove(LEVELS), kueue(LEVELS), *kai(OUTER_LEVELS)], {"kueue", *EXCLUSIVE}),
}

OSMO_POOL = {"name": "cluster", "topology_keys": [{"key": domain, "label": key} for domain, key in LEVELS.items()]}
OSMO_POD_GROUP = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "ml"},
    "spec": {
        "minMember": 4,
        "topologyConstraint": {"topology": "osmo-pool-osmo-cluster-topology", "requiredTopologyLevel": RACK},
    },
}
"""What OSMO makes of its example."""


def workload(system: str) -> Object:
    """The system's example in the docs, or a workload that wants a rack to itself."""
    if system in EXCLUSIVE:
        return read_manifest(f"explain/exclusive-{system}.yaml")
    text = (ROOT / "docs" / "examples" / f"{system}.yaml").read_text(encoding="utf-8")
    document: Object = next(yaml.load_all(text, yaml.CSafeLoader))
    if system == "kueue":
        document["metadata"].setdefault("labels", {})["kueue.x-k8s.io/queue-name"] = "gpus"
    return document


def osmo_pod(number: int) -> Object:
    """A pod of OSMO's PodGroup that waits."""
    waiting = pod(f"train-{number}", message="")
    waiting["metadata"]["annotations"] = {"pod-group-name": "train"}
    return waiting


def is_explained_well(snapshot: Snapshot, store: ObjectStore, document: Object) -> bool:
    return Diagnosis(Context(snapshot, store, ref_of(document))).has_no_problems


def is_well_on_the_page(snapshot: Snapshot, *manifests: Object) -> bool:
    checks = checked(yaml.safe_dump_all(manifests), snapshot, ()).checks
    return all(check.well for check in checks)


def is_checked_well(snapshot: Snapshot, *manifests: Object) -> bool:
    answers = Checker(snapshot, list(manifests)).check(manifests[0])
    return all(answer.is_ok for answer in answers)


def snapshot_of(folder: Path, *objects: Object) -> Snapshot:
    """The demo's nodes and these objects, saved and loaded."""
    file = folder / "cluster.json"
    file.write_text(saved([*demo_nodes(), *objects]), encoding="utf-8")
    return load_files([str(file)])


@pytest.mark.regression
@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
@pytest.mark.parametrize("system", ["kai", "kueue", "grove", "dynamo", "runai", "osmo", "lws", "jobset"])
def test_check_explain_and_the_page_agree(system: str, state: State, tmp_path: Path) -> None:
    document = workload(system)
    manifests, live, members = [document], document, []
    if system == "osmo":
        manifests = [document, OSMO_POOL]
        live = OSMO_POD_GROUP
        members = [osmo_pod(number) for number in range(4)]
    objects = [cluster_topology(levels=levels_of(LEVELS)), *state.topologies, *kueue_queue(), *members]
    served = {}
    for name in SERVED:
        served[name] = not any(api in name for api in state.unserved)
    snapshot = snapshot_of(tmp_path, running_pod("one", "gb200-01", 1), *objects)
    snapshot = replace(snapshot, served=served)
    store = ObjectStore()
    for item in (*objects, live):
        store.put(item)

    is_well = system in state.well
    assert is_checked_well(snapshot, *manifests) == is_well
    assert is_explained_well(snapshot, store, live) == is_well
    assert is_well_on_the_page(snapshot, *manifests) == is_well


@pytest.mark.regression
def test_dynamo_replica_beyond_the_first_needs_no_room_beside_it(tmp_path: Path) -> None:
    """Two replicas of 24 GPUs, each in one rack; either rack has room for one."""
    document = workload("dynamo")
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    decode: dict[str, Any] = {
        "name": "decode",
        "replicas": 2,
        "multinode": {"nodeCount": 3},
        "podTemplate": {"spec": {"containers": [container]}},
    }
    document["spec"] = {
        "topologyConstraint": {"clusterTopologyName": "cluster", "packDomain": "rack"},
        "components": [decode],
    }
    snapshot = snapshot_of(
        tmp_path,
        running_pod("a", "h200-1", 8),
        running_pod("b", "h200-5", 8),
        grove(LEVELS),
        *kai(LEVELS),
        kueue(LEVELS),
    )

    (answer,) = Checker(snapshot, [document]).check(document)
    assert answer.verdict is not None
    assert answer.verdict.kind == "fits"
