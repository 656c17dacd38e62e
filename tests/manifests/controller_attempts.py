"""Requests with the token of the controller, and what the answer to a refused one says."""

from typing import Any

from tests.manifests import rights
from tests.manifests.rights import AGENTS, EVENTS, HOME, LEASES, NODES, OTHER, OWN, PLAN, TOPOLOGIES, Attempt, managed

UID = "11111111-2222-3333-4444-555555555555"
LEASE = f"{LEASES}/toposcope-controller"

ONLY_SEGMENTS = "the controller may only write ClusterTopologies that it created for segments"
ITS_EVENTS = "the controller may only write its own Events"
PLAIN_EVENTS = "the controller's Events may only have the fields that it writes"
AGENT_PODS = "/api/v1/namespaces/toposcope-system/pods"
NO_NODES = 'cannot patch resource "nodes"'


def segment(
    name: str, *, managed_by: str = "toposcope", spec: dict[str, Any] | None = None, **owner: Any
) -> dict[str, Any]:
    """The ClusterTopology of a segment of `cluster`, as far as the arguments do not say otherwise; None: without."""
    reference = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "name": "cluster",
        "uid": UID,
        "controller": True,
        **owner,
    }
    return {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": managed_by},
            "ownerReferences": [{key: value for key, value in reference.items() if value is not None}],
        },
        "spec": spec or {},
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def lease(name: str = "toposcope-controller") -> dict[str, Any]:
    """A Lease that nobody holds."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}


def workload_event(name: str, **more: Any) -> dict[str, Any]:
    """An Event about a workload's pod, as the controller writes it."""
    return rights.event(name, kind="Pod", about="trainer", by="gpu.topology/controller", **more)


def event_entry(manager: str, fields: dict[str, Any]) -> dict[str, Any]:
    """An entry of an Event's managedFields."""
    return managed(manager, fields, api_version="events.k8s.io/v1")


PRESENT = (
    rights.post("a segment's topology", TOPOLOGIES, segment("owned")),
    rights.post("an Event of the kubelet", EVENTS, rights.event("confined-own.kubelet", by="kubelet")),
    rights.post("an Event of its own", EVENTS, workload_event("its-own")),
)

IN_FORCE = (
    rights.get("reading Nodes", NODES),
    rights.merge(
        "its own topologies only", f"{TOPOLOGIES}/cluster?dryRun=All", {"spec": {"required": ["rack"]}}, ONLY_SEGMENTS
    ),
    rights.post("honest Events", f"{EVENTS}?dryRun=All", rights.event("a.0", by="kubelet"), ITS_EVENTS),
    rights.post("making Leases", f"{LEASES}?dryRun=All", lease()),
)

WORK = (
    rights.get("list Nodes", NODES),
    rights.get("read a Node", OWN),
    rights.get("list topologies", TOPOLOGIES),
    rights.merge("patch status", f"{TOPOLOGIES}/cluster/status", {"status": {"nodes": 2}}),
    rights.apply(
        "apply status",
        f"{TOPOLOGIES}/cluster/status",
        {
            "apiVersion": "gpu.topology/v1alpha1",
            "kind": "ClusterTopology",
            "metadata": {"name": "cluster"},
            "status": {"nodes": 2, "levelPath": "zone > host"},
        },
    ),
    rights.post("make the topology of a segment", TOPOLOGIES, segment("cluster-rack", spec={"segments": "Off"})),
    rights.json_patch("change it", f"{TOPOLOGIES}/cluster-rack", "replace", "/spec", {"required": ["rack"]}),
    rights.delete("take it back", f"{TOPOLOGIES}/cluster-rack"),
    rights.post("report on a workload", EVENTS, workload_event("a.5")),
    rights.count_event("count its Event on", "a.5"),
    rights.post("make the Lease", LEASES, lease()),
    rights.get("read the Lease", LEASE),
    rights.apply(
        "write the agents' plan",
        PLAN,
        config_map("toposcope-node-plan", **{"plan.json": '{"version":1,"placeholders":[],"topologies":[]}'}),
    ),
    rights.get("read the agents' plan", PLAN),
    rights.get("look at the agents' DaemonSet", AGENTS),
    rights.get("look at the agents' pods", AGENT_PODS),
    rights.get("read why it has no pods", f"{HOME}/events"),
)

FOREIGN_LEASES = (
    rights.get("read another Lease", f"{LEASES}/other", 'cannot get resource "leases"'),
    Attempt("take another Lease", "PUT", f"{LEASES}/other", lease("other"), says='cannot update resource "leases"'),
    rights.merge_metadata("patch the Lease", LEASE, 'cannot patch resource "leases"', labels={"a": "b"}),
    rights.delete("delete the Lease", LEASE, 'cannot delete resource "leases"'),
    rights.get("list Leases", LEASES, 'cannot list resource "leases"'),
    rights.post(
        "elect elsewhere",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        lease(),
        'cannot create resource "leases"',
    ),
)

CONFIG_MAPS = (
    rights.apply(
        "write another ConfigMap",
        f"{HOME}/configmaps/toposcope-config",
        config_map("toposcope-config", **{"config.yaml": "{}"}),
        'cannot patch resource "configmaps"',
    ),
    rights.post(
        "make a ConfigMap", f"{HOME}/configmaps", config_map("toposcope-config"), 'cannot create resource "configmaps"'
    ),
    rights.delete("delete the agents' plan", PLAN, 'cannot delete resource "configmaps"'),
    rights.get("read another ConfigMap", f"{HOME}/configmaps/toposcope-config", 'cannot get resource "configmaps"'),
    rights.get("list ConfigMaps", f"{HOME}/configmaps", 'cannot list resource "configmaps"'),
)

NODES_OF_AGENTS = (
    rights.merge(
        "replace a Node's status", f"{OWN}/status", {"status": {"phase": "x"}}, 'cannot patch resource "nodes/status"'
    ),
    rights.merge_metadata("label a Node with unique values", OWN, NO_NODES, labels={"gpu.topology/unique-rack": "x"}),
    rights.merge_metadata(
        "write Slinky's annotation", OWN, NO_NODES, annotations={"topology.slinky.slurm.net/spec": "x"}
    ),
    rights.apply_node("label a Node", OWN, NO_NODES, labels={"gpu.topology/gpus": "8"}),
    rights.merge("cordon", OWN, {"spec": {"unschedulable": True}}, NO_NODES),
    rights.delete("delete a Node", OTHER, 'cannot delete resource "nodes"'),
)

TOPOLOGIES_OF_ADMINS = (
    rights.merge(
        "change what an admin asked for", f"{TOPOLOGIES}/cluster", {"spec": {"required": ["rack"]}}, ONLY_SEGMENTS
    ),
    rights.delete("delete a topology", f"{TOPOLOGIES}/cluster", ONLY_SEGMENTS),
    rights.apply("take an admin's topology over", f"{TOPOLOGIES}/cluster", segment("cluster"), ONLY_SEGMENTS),
    rights.apply("make one that is nobody's", f"{TOPOLOGIES}/a", segment("a", managed_by="me"), ONLY_SEGMENTS),
    rights.apply(
        "make one that another does not control", f"{TOPOLOGIES}/e", segment("e", controller=None), ONLY_SEGMENTS
    ),
    rights.apply("make one of something else", f"{TOPOLOGIES}/b", segment("b", kind="Node"), ONLY_SEGMENTS),
    rights.apply(
        "make one of Grove's ClusterTopology",
        f"{TOPOLOGIES}/d",
        segment("d", apiVersion="grove.io/v1alpha1"),
        ONLY_SEGMENTS,
    ),
    rights.apply(
        "make one with segments of its own",
        f"{TOPOLOGIES}/c",
        segment("c", spec={"segments": "Auto"}),
        "the ClusterTopology of a segment may not have segments of its own; set its spec.segments to Off",
    ),
    rights.json_patch(
        "give one to another",
        f"{TOPOLOGIES}/owned",
        "replace",
        "/metadata/ownerReferences/0/uid",
        "99999999-2222-3333-4444-555555555555",
        says="the controller may not change the owner of a ClusterTopology",
    ),
    rights.delete("delete all topologies", TOPOLOGIES, 'cannot deletecollection resource "clustertopologies"'),
)

EVENTS_OF_OTHERS = (
    rights.post("speak for the kubelet", EVENTS, rights.event("a.7", by="kubelet"), ITS_EVENTS),
    rights.post("speak for an agent", EVENTS, rights.event("a.8"), ITS_EVENTS),
    rights.count_event("write on in an Event of another", "confined-own.kubelet", ITS_EVENTS),
    rights.get("read Events", EVENTS, 'cannot list resource "events"'),
    rights.get("read Events elsewhere", "/api/v1/namespaces/default/events", 'cannot list resource "events"'),
)


def crowded_event(what: str, name: str, manager: str = "", **more: Any) -> Attempt:
    """Create an Event with more in it than the controller writes."""
    path = f"{EVENTS}?fieldManager={manager}" if manager else EVENTS
    return rights.post(what, path, workload_event(name, **more), PLAIN_EVENTS)


def crowd_its_event(what: str, **metadata: Any) -> Attempt:
    """Put more into an Event of its own; without managedFields, in which the same would be found."""
    return rights.merge_metadata(what, f"{EVENTS}/its-own", PLAIN_EVENTS, managedFields=[{}], **metadata)


CROWDED_EVENTS = (
    # Larger than what every watch of Events should carry.
    crowded_event("put annotations into an Event", "a.9", metadata={"annotations": {"a": "x" * 250_000}}),
    crowded_event("put finalizers into an Event", "a.9", metadata={"finalizers": ["a.b/c"]}),
    crowded_event("relate", "a.9", related={"apiVersion": "v1", "kind": "Node", "name": "confined-other"}),
    crowded_event(
        "make managers of an Event up",
        "a.10",
        manager="x",
        metadata={"managedFields": [event_entry("y", {"f:note": {}}), event_entry("z", {"f:note": {}})]},
    ),
    crowded_event(
        "make a field of an Event up",
        "a.11",
        manager="x",
        metadata={"managedFields": [event_entry("x", {"f:note": {"f:x": {}}})]},
    ),
    crowded_event(
        "make a field of any name up", "a.12", manager="x", metadata={"managedFields": [event_entry("x", {"f:x": {}})]}
    ),
    crowded_event(
        "make a field of the series up",
        "a.13",
        manager="x",
        metadata={"managedFields": [event_entry("x", {"f:series": {"f:x": {}}})]},
    ),
    crowded_event(
        "make a field below the series' count up",
        "a.15",
        manager="x",
        metadata={"managedFields": [event_entry("x", {"f:series": {"f:count": {"f:x": {}}}})]},
    ),
    crowded_event("fill an Event's fieldPath", "a.16", regarding={"fieldPath": "x" * 257}),
    crowd_its_event("label an Event of its own", labels={"a": "b"}),
    crowd_its_event("annotate an Event of its own", annotations={"a": "b"}),
    crowd_its_event("hold an Event of its own", finalizers=["a.b/c"]),
    crowd_its_event("give an Event of its own an owner", ownerReferences=[rights.OWNER]),
)

PODS = (
    rights.get("look at pods elsewhere", "/api/v1/pods", 'cannot list resource "pods"'),
    rights.get("look at one agent's pod", f"{AGENT_PODS}/toposcope-agent-1", 'cannot get resource "pods"'),
)

DAEMON_SETS = (
    rights.get("look at DaemonSets elsewhere", "/apis/apps/v1/daemonsets", 'cannot list resource "daemonsets"'),
    rights.merge(
        "change the agents'", f"{AGENTS}/toposcope-agent", {"required": ["rack"]}, 'cannot patch resource "daemonsets"'
    ),
)

FORBIDDEN = {
    "foreign-leases": FOREIGN_LEASES,
    "config-maps": CONFIG_MAPS,
    "nodes": NODES_OF_AGENTS,
    "topologies-of-admins": TOPOLOGIES_OF_ADMINS,
    "events-of-others": EVENTS_OF_OTHERS,
    "crowded-events": CROWDED_EVENTS,
    "pods": PODS,
    "daemon-sets": DAEMON_SETS,
    "anyone": rights.anyone_may_not("toposcope-controller"),
}
