"""Requests with the token of the agent on node confined-own, and what the answer to a refused one says."""

from typing import Any

from tests.manifests import rights
from tests.manifests.rights import EVENTS, GHOST, NODES, OTHER, OWN, TOPOLOGIES, Attempt, managed
from toposcope.agent.nvidia_labels import KEYS as NVIDIA_LABELS
from toposcope.api.label_keys import GPUS, MATRIX, REFERENCE

AS_AGENT = f"{OWN}?fieldManager=toposcope-agent"

ONLY_LABELS = "the agent may only write labels under gpu.topology/"
ONLY_ANNOTATIONS = "the agent may only write annotations under gpu.topology/"
ONLY_NUMBERS = "the agent may only write numbers from 0 to 9999 in its numeric labels"
FEW_LABELS = "the agent may keep at most 64 labels under gpu.topology/ on its Node"
SMALL_ANNOTATIONS = "the agent may keep at most 4 annotations under gpu.topology/ on its Node"
NO_SPEC = "the agent may not write Node.spec"
NO_OWNERS = "the agent may not write finalizers or ownerReferences"
ONLY_ITS_MANAGER = "the agent may only write Nodes as field manager toposcope-agent, and may only own its"
NO_OTHER_MANAGERS = "the agent may not write managedFields of other managers"
ONLY_ITS_NODE = "the agent on node confined-own may not write node confined-other"
ITS_EVENTS = "the agent may only write its own Events"
PLAIN_EVENTS = "the agent's Events may only have the fields that it writes"
TWO_DIGITS = "two hexadecimal digits"

NUMERIC = {
    "gpu.topology/gpus": "16",
    "gpu.topology/gpus-per-numa": "0-2-0-2-0-2-0-2",
    "gpu.topology/nvlink-version": "5.0",
    "gpu.topology/numa-nodes": "2",
    "gpu.topology/nvlink-bandwidth": "956",
    "gpu.topology/nvlink-domains": "1",
    "gpu.topology/nvlink-domain-size": "9999",
    "gpu.topology/nvlink-links": "18",
    "gpu.topology/nvswitches": "0",
    "gpu.topology/slot": "255",
    "gpu.topology/tray": "0",
}
"""Labels of an agent whose values are numbers."""


def many(count: int, **values: str) -> dict[str, str]:
    """As many keys of ours, each with the longest value of a label."""
    keys = {f"gpu.topology/l{number}": "x" * 63 for number in range(count)}
    return keys | values


def event_entry(manager: str, fields: dict[str, Any]) -> dict[str, Any]:
    """An entry of an Event's managedFields."""
    return managed(manager, fields, api_version="events.k8s.io/v1")


def owning(manager: str, fields: dict[str, Any], **more: str) -> list[dict[str, Any]]:
    """The managedFields of a Node whose metadata has one manager."""
    return [managed(manager, {"f:metadata": fields}, **more)]


WORK = (
    rights.apply_node("write every number", OWN, labels=NUMERIC),
    # One more is there.
    rights.apply_node("write as many labels as a later version may have", OWN, labels=many(63)),
    rights.apply_node("write large annotations", OWN, annotations={MATRIX: "x" * 16384, REFERENCE: "x" * 16384}),
    rights.get("read its Node", OWN),
    rights.get("read another Node by name", OTHER),
    rights.apply_node("write labels and annotation", OWN, labels={GPUS: "8"}, annotations={MATRIX: "{}"}),
    rights.apply_node("write a label of unique values", OWN, labels={"gpu.topology/unique-rack": "z.r1"}),
    rights.apply_node("drop them again", OWN),
    rights.post("report on its Node", EVENTS, rights.event("confined-own.1f")),
)

IN_FORCE = (
    rights.get("reading Nodes", OWN),
    rights.post("making Events", f"{EVENTS}?dryRun=All", rights.event("confined-own.00")),
    rights.post("honest Events", f"{EVENTS}?dryRun=All", rights.event("a.0", by="kubelet"), ITS_EVENTS),
    rights.merge_metadata("own labels", f"{OWN}?dryRun=All", ONLY_LABELS, labels={"a": "b"}),
)

FOREIGN_LABELS = (
    *(
        rights.apply_node(f"label {key}", OWN, ONLY_LABELS, labels={key: "x"})
        for key in (
            "node-role.kubernetes.io/control-plane",
            "gpu.topology.example.com/gpus",
            "x.gpu.topology/gpus",
            "gpu.topology",
            *sorted(NVIDIA_LABELS),
        )
    ),
    rights.merge_metadata("overwrite a label", OWN, ONLY_LABELS, labels={"example.com/pool": "x"}),
    rights.merge_metadata("remove a label", OWN, ONLY_LABELS, labels={"example.com/pool": None}),
    rights.json_patch("remove all labels", OWN, "remove", "/metadata/labels", says=ONLY_LABELS),
    rights.apply_node(
        "hide a foreign label among its own", OWN, ONLY_LABELS, labels={GPUS: "8", "example.com/pool": "x"}
    ),
)

FOREIGN_ANNOTATIONS = (
    rights.apply_node("annotate", OWN, ONLY_ANNOTATIONS, annotations={"example.com/new": "x"}),
    rights.merge_metadata("overwrite an annotation", OWN, ONLY_ANNOTATIONS, annotations={"example.com/note": "x"}),
    rights.json_patch("remove all annotations", OWN, "remove", "/metadata/annotations", says=ONLY_ANNOTATIONS),
)

REST_OF_ITS_NODE = (
    rights.merge("cordon", OWN, {"spec": {"unschedulable": True}}, NO_SPEC),
    rights.merge("taint", OWN, {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, NO_SPEC),
    rights.merge_metadata("hold the Node", OWN, NO_OWNERS, finalizers=["a.b/c"]),
    rights.merge_metadata("have the Node collected", OWN, NO_OWNERS, ownerReferences=[rights.OWNER]),
    rights.merge("write status", f"{OWN}/status", {"status": {}}, 'cannot patch resource "nodes/status"'),
    Attempt(
        "replace",
        "PUT",
        OWN,
        {"apiVersion": "v1", "kind": "Node", "metadata": {}},
        says='cannot update resource "nodes"',
    ),
    rights.delete("delete", OWN, 'cannot delete resource "nodes"'),
    rights.get("reach through the kubelet", f"{OWN}/proxy/", 'cannot get resource "nodes/proxy"'),
    rights.merge_metadata(
        "name its Node's generator", OWN, "the agent may not write other metadata of a Node", generateName="x"
    ),
)

FORGED_MANAGERS = (
    rights.apply_node(
        "fill the Node with managers", OWN, NO_OTHER_MANAGERS, "toposcope-controller", labels={GPUS: "8"}
    ),
    rights.merge_metadata(
        "make a field up", AS_AGENT, ONLY_ITS_MANAGER, managedFields=[managed("toposcope-agent", {"f:x": {}})]
    ),
    rights.merge_metadata(
        "make a field of metadata up", AS_AGENT, ONLY_ITS_MANAGER, managedFields=owning("toposcope-agent", {"f:x": {}})
    ),
    rights.merge_metadata(
        "make a label up",
        AS_AGENT,
        ONLY_ITS_MANAGER,
        managedFields=owning("toposcope-agent", {"f:labels": {"f:x": {}}}),
    ),
    rights.merge_metadata(
        "make a field of a label up",
        AS_AGENT,
        ONLY_ITS_MANAGER,
        managedFields=owning("toposcope-agent", {"f:labels": {"f:example.com/pool": {"f:x": {}}}}),
    ),
    rights.merge_metadata(
        "clear managedFields",
        AS_AGENT,
        "the agent may not remove fields from other managers' managedFields",
        managedFields=[{}],
    ),
    rights.merge_metadata(
        "make a manager up",
        AS_AGENT,
        NO_OTHER_MANAGERS,
        managedFields=owning("x", {"f:labels": {"f:example.com/pool": {}}}),
    ),
    rights.merge_metadata(
        "make a subresource up",
        AS_AGENT,
        NO_OTHER_MANAGERS,
        managedFields=owning("toposcope-agent", {"f:labels": {"f:example.com/pool": {}}}, subresource="x"),
    ),
)

OTHER_NODES = (
    rights.apply_node("label another Node", OTHER, ONLY_ITS_NODE, labels={GPUS: "8"}),
    rights.apply_node("write another agent's annotation", OTHER, ONLY_ITS_NODE, annotations={MATRIX: "{}"}),
    rights.merge_metadata("remove another agent's annotation", OTHER, ONLY_ITS_NODE, annotations={MATRIX: None}),
    rights.merge(
        "taint another Node", OTHER, {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, ONLY_ITS_NODE
    ),
    rights.get("list", NODES, 'cannot list resource "nodes"'),
    rights.delete("delete all", NODES, 'cannot deletecollection resource "nodes"'),
    rights.post(
        "create",
        NODES,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}},
        'cannot create resource "nodes"',
    ),
    rights.apply_node("apply to a Node that is gone", GHOST, 'nodes "ghost" is forbidden'),
    rights.get("read topologies", TOPOLOGIES, 'cannot list resource "clustertopologies"'),
)

EVENTS_OF_OTHERS = (
    rights.post(
        "report on another Node",
        EVENTS,
        rights.event("a.1", about="confined-other"),
        "the agent on node confined-own may not write Events about Node confined-other",
    ),
    rights.post("report on a Pod", EVENTS, rights.event("a.2", kind="Pod"), "may not write Events about Pod"),
    rights.post("speak for the kubelet", EVENTS, rights.event("a.3", by="kubelet"), ITS_EVENTS),
    rights.count_event("rewrite the kubelet's Event", "confined-own.kubelet", 'cannot patch resource "events"'),
    rights.count_event("count its Event on", "confined-own.1f", 'cannot patch resource "events"'),
    rights.get("read Events", EVENTS, 'cannot list resource "events"'),
    rights.post(
        "report elsewhere",
        "/apis/events.k8s.io/v1/namespaces/kube-system/events",
        rights.event("a.4", metadata={"namespace": "kube-system"}),
        "the agent may only write Events in the namespace default",
    ),
)


def crowded_event(what: str, name: str | None, manager: str = "", **more: Any) -> Attempt:
    """Create an Event with more in it than the agent writes."""
    path = f"{EVENTS}?fieldManager={manager}" if manager else EVENTS
    return rights.post(what, path, rights.event(name, **more), PLAIN_EVENTS)


CROWDED_EVENTS = (
    crowded_event("point at another Node", "a.10", related={"kind": "Node", "name": "confined-other"}),
    crowded_event("hold an Event", "a.11", metadata={"finalizers": ["a.b/c"]}),
    crowded_event("give an Event an owner", "a.12", metadata={"ownerReferences": [rights.OWNER]}),
    crowded_event("fill an Event with annotations", "a.13", metadata={"annotations": {"a": "x" * 250_000}}),
    crowded_event("label an Event", "a.14", metadata={"labels": {"a": "b"}}),
    crowded_event("fill an Event's fieldPath", "a.15", regarding={"fieldPath": "x" * 250_000}),
    crowded_event("fill an Event's apiVersion", "a.15", regarding={"apiVersion": "x" * 250_000}),
    crowded_event("fill an Event's namespace", "a.15", regarding={"namespace": "x" * 250_000}),
    crowded_event(
        "make managers of an Event up",
        "a.16",
        manager="x",
        metadata={"managedFields": [event_entry("y", {"f:note": {}})]},
    ),
    crowded_event(
        "make a field of an Event up",
        "a.17",
        manager="x",
        metadata={"managedFields": [event_entry("x", {"f:note": {"f:x": {}}})]},
    ),
    crowded_event(
        "make a field of any name up", "a.18", manager="x", metadata={"managedFields": [event_entry("x", {"f:x": {}})]}
    ),
    crowded_event("report under names that the server makes", None, metadata={"generateName": "confined-own"}),
)

ANY_NUMBER_OF_EVENTS = (
    rights.post(
        "report under a long name",
        EVENTS,
        rights.event("confined-own.1f0"),
        "the agent may only write Events named after its node, a dot and two hexadecimal digits",
    ),
    rights.post("report under a short name", EVENTS, rights.event("confined-own.1"), TWO_DIGITS),
    rights.post("report under another's name", EVENTS, rights.event("confined-other.1f"), TWO_DIGITS),
    rights.post("report under a name like its own", EVENTS, rights.event("confined.own.1f"), TWO_DIGITS),
)

IMPLAUSIBLE_NUMBERS = tuple(
    rights.apply_node(f"claim {value!r} in {key}", OWN, ONLY_NUMBERS, labels={key: value})
    for key in sorted(NUMERIC)
    for value in ("2147483648", "10000", "9" * 63, "8x", "4_4", "")
)

# What every watch of Nodes would carry.
TOO_MUCH = (
    rights.apply_node("label beyond measure", OWN, FEW_LABELS, labels=many(65)),
    rights.apply_node("fill the Node with labels", OWN, FEW_LABELS, labels=many(6000)),
    rights.apply_node("annotate at length", OWN, SMALL_ANNOTATIONS, annotations={MATRIX: "x" * 16385}),
    rights.apply_node("fill the Node with annotations", OWN, SMALL_ANNOTATIONS, annotations=many(5)),
)

FORBIDDEN = {
    "foreign-labels": FOREIGN_LABELS,
    "foreign-annotations": FOREIGN_ANNOTATIONS,
    "rest-of-its-node": REST_OF_ITS_NODE,
    "forged-managers": FORGED_MANAGERS,
    "other-nodes": OTHER_NODES,
    "events-of-others": EVENTS_OF_OTHERS,
    "crowded-events": CROWDED_EVENTS,
    "any-number-of-events": ANY_NUMBER_OF_EVENTS,
    "implausible-numbers": IMPLAUSIBLE_NUMBERS,
    "too-much": TOO_MUCH,
    "anyone": rights.anyone_may_not("toposcope-agent"),
}
