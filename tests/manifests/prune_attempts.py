"""Requests with the token of the prune Job, and what the answer to a refused one says."""

from typing import Any

from tests.manifests import rights
from tests.manifests.rights import AGENTS, CONTROLLERS, FLAVORS, GHOST, HOME, NODES, OTHER, OWN, PATHS, PLAN, TOPOLOGIES
from tests.support.publishing import PUBLISHED, published

SLINKY = "topology.slinky.slurm.net/spec"
CONFIG_MAPS = f"{HOME}/configmaps"

ONLY_OUR_LABELS = "the prune Job may only remove Toposcope's labels"
ONLY_OUR_ANNOTATIONS = "the prune Job may only remove Toposcope's annotations"
ONLY_PUBLISHED = "the prune Job may only delete topologies that Toposcope published"
ONLY_OUR_PROGRAMS = "the prune Job may only delete Toposcope's agent, switches and controller"
NOT_OF_OTHERS = "the prune Job may not remove fields from other managers' managedFields"
NO_SPEC = "the prune Job may not write Node.spec"
NO_OWNERS = "the prune Job may not write finalizers or ownerReferences"


def owned_by(api_version: str, kind: str) -> list[dict[str, str]]:
    """The ownerReferences of an object with one owner."""
    return [{"apiVersion": api_version, "kind": kind, "name": "a", "uid": "a"}]


MANAGED_BY_US = {"app.kubernetes.io/managed-by": "toposcope"}
UNPUBLISHED: dict[str, dict[str, Any]] = {
    "not-labelled": {"ownerReferences": owned_by("gpu.topology/v1alpha1", "ClusterTopology")},
    "of-another-kind": {"labels": MANAGED_BY_US, "ownerReferences": owned_by("gpu.topology/v1alpha1", "Other")},
    "of-grove": {"labels": MANAGED_BY_US, "ownerReferences": owned_by("grove.io/v1alpha1", "ClusterTopology")},
    "theirs": {},
}
"""Metadata of objects that the controller did not publish, by name."""

OTHER_DAEMON_SETS = {
    "agent-of-others": {"app.kubernetes.io/name": "other", "app.kubernetes.io/component": "agent"},
    "other": {},
    "page": {"app.kubernetes.io/name": "toposcope", "app.kubernetes.io/component": "ui"},
}
"""DaemonSets that are no program of ours which writes, with their labels."""

IN_FORCE = (
    rights.delete("no program but ours", f"{AGENTS}/other?dryRun=All", ONLY_OUR_PROGRAMS),
    rights.get("reading Nodes", NODES),
    rights.get("looking at pods", f"{HOME}/pods"),
    rights.merge_metadata("only labels of ours", f"{OWN}?dryRun=All", ONLY_OUR_LABELS, labels={"example.com/a": "b"}),
    rights.delete("only what was published", f"{next(iter(PUBLISHED))}/theirs?dryRun=All", ONLY_PUBLISHED),
)

LIST_PROGRAMS = rights.get("list programs at home", CONTROLLERS)
WORK = (
    rights.get("list Nodes", NODES),
    rights.merge_metadata("take a label of ours", OWN, labels={"gpu.topology/gpus": None}),
    rights.merge_metadata("take one that an agent may have written", OWN, labels={"nvidia.com/gpu.count": None}),
    rights.merge_metadata("take an annotation of ours", OWN, annotations={"gpu.topology/matrix": None}),
    rights.merge_metadata("take Slinky's annotation", OWN, annotations={SLINKY: None}),
    rights.get("list ClusterTopologies", TOPOLOGIES),
    rights.get("list flavors", FLAVORS),
    rights.get("list pods at home", f"{HOME}/pods"),
    rights.delete("delete the agents' plan", PLAN),
    rights.delete("delete the paths of nodes", PATHS),
    rights.get("look at the agents", f"{AGENTS}/toposcope-agent"),
    rights.get("look at the controllers", f"{CONTROLLERS}/toposcope-controller"),
    LIST_PROGRAMS,
    *(rights.get(f"list {path}", path) for path in PUBLISHED),
    *(rights.get(f"look at {path}", f"{path}/theirs") for path in PUBLISHED),
)

LABELS_AND_ANNOTATIONS = (
    rights.merge_metadata("set a label of ours", OWN, ONLY_OUR_LABELS, labels={"gpu.topology/state": "ok"}),
    rights.merge_metadata("change a label of ours", OWN, ONLY_OUR_LABELS, labels={"gpu.topology/shape": "x"}),
    rights.merge_metadata("set a label of others", OWN, ONLY_OUR_LABELS, labels={"example.com/new": "x"}),
    rights.merge_metadata("take a label of others", OWN, ONLY_OUR_LABELS, labels={"example.com/pool": None}),
    rights.merge_metadata(
        "take a label of the GPU Operator", OWN, ONLY_OUR_LABELS, labels={"nvidia.com/gpu.present": None}
    ),
    rights.json_patch("take all labels", OWN, "remove", "/metadata/labels", says=ONLY_OUR_LABELS),
    rights.merge_metadata("annotate", OWN, ONLY_OUR_ANNOTATIONS, annotations={"gpu.topology/matrix": "[]"}),
    rights.merge_metadata("annotate as others do", OWN, ONLY_OUR_ANNOTATIONS, annotations={"example.com/new": "x"}),
    rights.merge_metadata("take others' annotation", OWN, ONLY_OUR_ANNOTATIONS, annotations={"example.com/note": None}),
    rights.merge_metadata("write Slinky's annotation", OWN, ONLY_OUR_ANNOTATIONS, annotations={SLINKY: "a:c"}),
    rights.merge_metadata(
        "take Slinky's annotation from another owner", OTHER, NOT_OF_OTHERS, annotations={SLINKY: None}
    ),
    rights.merge_metadata(
        "take a label of GPU Feature Discovery", OTHER, NOT_OF_OTHERS, labels={"nvidia.com/gpu.count": None}
    ),
)

REST_OF_NODES = (
    rights.merge_metadata("clear managedFields", OWN, "the prune Job may not write managedFields", managedFields=[{}]),
    rights.merge_metadata(
        "name a Node's generator", OWN, "the prune Job may not write other metadata of a Node", generateName="x"
    ),
    rights.merge("cordon", OWN, {"spec": {"unschedulable": True}}, NO_SPEC),
    rights.merge("taint", OWN, {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, NO_SPEC),
    rights.merge_metadata("hold a Node", OWN, NO_OWNERS, finalizers=["a.b/c"]),
    rights.merge_metadata("have a Node collected", OWN, NO_OWNERS, ownerReferences=[rights.OWNER]),
    rights.merge("write a Node's status", f"{OWN}/status", {"status": {}}, 'cannot patch resource "nodes/status"'),
    rights.delete("delete a Node", OTHER, 'cannot delete resource "nodes"'),
    rights.apply_node("apply to a Node that is gone", GHOST, 'nodes "ghost" is forbidden'),
)

OTHER_OBJECTS = (
    rights.delete("delete another ConfigMap", f"{CONFIG_MAPS}/toposcope-config", 'cannot delete resource "configmaps"'),
    rights.get("read another ConfigMap", f"{CONFIG_MAPS}/toposcope-config", 'cannot get resource "configmaps"'),
    rights.get("list ConfigMaps", CONFIG_MAPS, 'cannot list resource "configmaps"'),
    rights.merge("ask for levels", f"{TOPOLOGIES}/cluster", {"spec": {"required": ["rack"]}}, "cannot patch"),
    rights.delete("delete a flavor", f"{FLAVORS}/h200", "cannot delete"),
    rights.delete("stop all programs", AGENTS, 'cannot deletecollection resource "daemonsets"'),
    rights.delete("delete a pod", f"{HOME}/pods/a", 'cannot delete resource "pods"'),
    *(
        rights.delete(f"stop {name}", f"{AGENTS}/{name}", "may only delete Toposcope's agent")
        for name in OTHER_DAEMON_SETS
    ),
)

UNPUBLISHED_TOPOLOGIES = (
    *(
        rights.delete(f"delete another's {path}/{name}", f"{path}/{name}", ONLY_PUBLISHED)
        for path in PUBLISHED
        for name in UNPUBLISHED
    ),
    *(rights.merge(f"change {path}", f"{path}/theirs", {"spec": {}}, "cannot patch") for path in PUBLISHED),
    *(rights.post(f"make {path}", path, published(path, "a"), "cannot create") for path in PUBLISHED),
    *(rights.delete(f"delete all {path}", path, "cannot deletecollection") for path in PUBLISHED),
)

FORBIDDEN = {
    "labels-and-annotations": LABELS_AND_ANNOTATIONS,
    "rest-of-nodes": REST_OF_NODES,
    "other-objects": OTHER_OBJECTS,
    "unpublished-topologies": UNPUBLISHED_TOPOLOGIES,
    "anyone": rights.anyone_may_not("toposcope-prune"),
}
