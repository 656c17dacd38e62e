"""`check`, `explain` and the page's Check on one cluster: whatever schedulers have there, all three say the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.explain.waiting import binding, cluster_topology, kai_topology
from tests.support.paths import ROOT
from tests.support.saved import demo_nodes, pod, saved
from tests.support.tables import named_objects
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
KEY_OF = {
    "zone": "topology.kubernetes.io/zone",
    "block": "cloud.google.com/gce-topology-block",
    "rack": RACK,
    "nvlink-domain": "gpu.topology/nvlink-domain",
    "host": "kubernetes.io/hostname",
}
INNER = ("block", "rack", "nvlink-domain")
SERVED = [*(kind.name for kind in PUBLISHED), *(kind.name for kind in READ)]
assert set(KEY_OF) <= set(KEYS)


def topologies(
    name: str = "cluster", *, without: tuple[str, ...] = (), gone: bool = False
) -> dict[str, dict[str, Any]]:
    """What Grove, KAI and Kueue read."""
    levels = [(domain, key) for domain, key in KEY_OF.items() if domain not in without]
    levels[1:1] = [("gone", "example.com/gone")] if gone else []
    keys = [key for _, key in levels]
    pool = f"osmo-pool-osmo-{name}-topology"
    of_kueue = kueue("Topology", name, {"levels": [{"nodeLabel": key} for key in keys]})
    return {
        "grove": {**binding(*levels), "metadata": {"name": name}},
        "kai": kai_topology(*keys, name=name),
        "kueue": of_kueue,
        "osmo": kai_topology(*keys, name=pool),
    }


def kueue(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def queue() -> list[dict[str, Any]]:
    covered = ["cpu", "memory", "nvidia.com/gpu"]
    flavor = {"name": "gpu", "resources": [{"name": name, "nominalQuota": "100000Gi"} for name in covered]}
    spec = {"resourceGroups": [{"coveredResources": covered, "flavors": [flavor]}], "namespaceSelector": {}}
    return [
        kueue("ResourceFlavor", "gpu", {"topologyName": "cluster"}),
        kueue("ClusterQueue", "gpus", spec),
        kueue("LocalQueue", "gpus", {"clusterQueue": "gpus"}, "ml"),
    ]


STATES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "all there": ([*topologies().values()], ""),
    "none there": ([], ""),
    "not served": ([], "grove kai kueue"),
    "another name": ([*topologies("other").values()], ""),
    "without the level": ([*topologies(without=INNER).values()], ""),
    "a level whose label is gone": ([*topologies(gone=True).values()], ""),
    "nothing for KAI": ([topologies()[system] for system in ("grove", "kueue")], ""),
    "KAI not served": ([topologies()[system] for system in ("grove", "kueue")], "kai"),
    "KAI without the level": (
        [
            *(topologies()[system] for system in ("grove", "kueue")),
            *(topologies(without=INNER)[s] for s in ("kai", "osmo")),
        ],
        "",
    ),
}
WELL = {
    "all there": {"kai", "kueue", "grove", "dynamo", "runai", "osmo", "lws", "jobset"},
    "nothing for KAI": {"kueue", "lws", "jobset"},
    "KAI not served": {"kueue", "lws", "jobset"},
    "KAI without the level": {"kueue", "lws", "jobset"},
}


POOL = {"name": "cluster", "topology_keys": [{"key": domain, "label": key} for domain, key in KEY_OF.items()]}
POD_GROUP = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "ml"},
    "spec": {
        "minMember": 4,
        "topologyConstraint": {"topology": "osmo-pool-osmo-cluster-topology", "requiredTopologyLevel": RACK},
    },
}
"""What OSMO makes of its example."""


def workload(system: str) -> dict[str, Any]:
    exclusive = named_objects("exclusive.yaml")
    if system in exclusive:
        return exclusive[system]
    text = (ROOT / "docs" / "examples" / f"{system}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = next(yaml.safe_load_all(text))
    if system == "kueue":
        document["metadata"].setdefault("labels", {})["kueue.x-k8s.io/queue-name"] = "gpus"
    return document


def _member(number: int) -> dict[str, Any]:
    waiting = pod(f"train-{number}", None, 8, phase="Pending", schedulerName="kai-scheduler")
    waiting["metadata"] |= {"namespace": "ml", "annotations": {"pod-group-name": "train"}}
    return waiting


def explained(snapshot: Snapshot, store: ObjectStore, document: dict[str, Any]) -> bool:
    return Diagnosis(Context(snapshot, store, ref_of(document))).well


def on_the_page(snapshot: Snapshot, *documents: dict[str, Any]) -> bool:
    checks = checked(yaml.safe_dump_all(documents), snapshot, ()).checks
    return all(check.well for check in checks)


@pytest.mark.regression
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("system", ["kai", "kueue", "grove", "dynamo", "runai", "osmo", "lws", "jobset"])
def test_check_explain_and_the_page_agree(system: str, state: str, tmp_path: Path) -> None:
    published, unserved = STATES[state]
    objects = [cluster_topology(levels=[{"domain": d, "key": k} for d, k in KEY_OF.items()]), *published, *queue()]
    members = [_member(number) for number in range(4)] if system == "osmo" else []
    file = tmp_path / "cluster.json"
    file.write_text(saved([*demo_nodes(), pod("one", "gb200-01", 1), *objects, *members]), encoding="utf-8")
    served = {name: not any(of in name for of in unserved.split()) for name in SERVED}
    snapshot = replace(load_files([str(file)]), served=served)
    document = workload(system)
    beside, live = ([POOL], POD_GROUP) if system == "osmo" else ([], document)
    store = ObjectStore()
    for item in (*objects, live, *members):
        store.put(item)
    checked = all(answer.well for answer in Checker(snapshot, [document, *beside]).check(document))
    assert checked == (system in WELL.get(state, {"lws", "jobset"}))
    assert explained(snapshot, store, live) == checked
    assert on_the_page(snapshot, document, *beside) == checked


@pytest.mark.regression
def test_replicas_beyond_the_first_of_a_dynamo_component_need_no_room_beside_it(tmp_path: Path) -> None:
    """Two replicas of 24 GPUs, each in one rack; either rack has room for one."""
    document = workload("dynamo")
    pods = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}}
    document["spec"] = {
        "topologyConstraint": {"clusterTopologyName": "cluster", "packDomain": "rack"},
        "components": [{"name": "decode", "replicas": 2, "multinode": {"nodeCount": 3}, "podTemplate": pods}],
    }
    busy = [pod("a", "h200-1", 8), pod("b", "h200-5", 8)]
    file = tmp_path / "cluster.json"
    file.write_text(saved([*demo_nodes(), *busy, *topologies().values()]), encoding="utf-8")
    (checked,) = Checker(load_files([str(file)]), [document]).check(document)
    assert checked.verdict is not None
    assert checked.verdict.kind == "fits", checked
