"""Requests with the token of `toposcope switches` on node confined-own, and what the answer to a refused one says."""

from typing import Any

from tests.manifests import rights
from tests.manifests.rights import EVENTS, GHOST, NODES, OTHER, OWN, TOPOLOGIES, Attempt, managed
from toposcope.api.label_keys import SWITCHES
from toposcope.hardware.neighbours import MAX_ANNOTATION_CHARACTERS
from toposcope.switches.publish import MANAGER

AS_SWITCHES = f"{OWN}?fieldManager={MANAGER}"

ONLY_ITS_ANNOTATION = "toposcope switches may only write the annotation gpu.topology/switches"
ONLY_ITS_MANAGER = "toposcope switches may only write Nodes as field manager toposcope-switches, and may only own its"
NO_LABELS = "may not write labels"
NO_OTHER_MANAGERS = "toposcope switches may not write managedFields of other managers"


def write(what: str, path: str, says: str = "", **metadata: Any) -> Attempt:
    """An apply of a Node's metadata as the program makes it."""
    return rights.apply_node(what, path, says, MANAGER, **metadata)


def forge(what: str, says: str, entry: dict[str, Any]) -> Attempt:
    """Write one entry of managedFields."""
    return rights.merge_metadata(what, AS_SWITCHES, says, managedFields=[entry])


# A dry run: a write before the policy is in force would leave later ones nothing to change.
IN_FORCE = (
    rights.merge_metadata("annotate", f"{OWN}?dryRun=All", ONLY_ITS_ANNOTATION, annotations={"example.com/new": "x"}),
)

WORK = (
    rights.get("read its Node", OWN),
    write("write its annotation", OWN, annotations={SWITCHES: "{}"}),
    rights.get("read which cables are wrong", TOPOLOGIES),
    write("drop it again", OWN),
)

LONGEST_ANNOTATION = write("write as much as fits", OWN, annotations={SWITCHES: "x" * MAX_ANNOTATION_CHARACTERS})

FORBIDDEN = (
    write("write more than fits", OWN, "at most 16384", annotations={SWITCHES: "x" * (MAX_ANNOTATION_CHARACTERS + 1)}),
    write("write what the agent writes", OWN, ONLY_ITS_ANNOTATION, annotations={"gpu.topology/rails": "[]"}),
    rights.merge_metadata("overwrite an annotation", OWN, ONLY_ITS_ANNOTATION, annotations={"example.com/note": "x"}),
    rights.merge_metadata("remove an annotation", OWN, ONLY_ITS_ANNOTATION, annotations={"example.com/note": None}),
    write("label its leaf", OWN, "toposcope switches may not write labels", labels={"gpu.topology/leaf": "x"}),
    rights.merge_metadata("remove a label", OWN, NO_LABELS, labels={"example.com/pool": None}),
    rights.merge("cordon", OWN, {"spec": {"unschedulable": True}}, NO_LABELS),
    rights.merge_metadata("hold", OWN, NO_LABELS, finalizers=["a.example.com/b"]),
    rights.merge_metadata("have the Node collected", OWN, NO_LABELS, ownerReferences=[rights.OWNER]),
    rights.apply_node(
        "fill the Node with managers", OWN, NO_OTHER_MANAGERS, "toposcope-controller", annotations={SWITCHES: "{}"}
    ),
    rights.merge_metadata(
        "name its Node's generator", OWN, "toposcope switches may not write other metadata of a Node", generateName="x"
    ),
    forge("make a field up", ONLY_ITS_MANAGER, managed(MANAGER, {"f:x": {}})),
    forge("make a field of metadata up", ONLY_ITS_MANAGER, managed(MANAGER, {"f:metadata": {"f:x": {}}})),
    forge("make a label up", ONLY_ITS_MANAGER, managed(MANAGER, {"f:metadata": {"f:labels": {"f:x": {}}}})),
    forge(
        "make a field of a label up",
        ONLY_ITS_MANAGER,
        managed(MANAGER, {"f:metadata": {"f:labels": {"f:example.com/pool": {"f:x": {}}}}}),
    ),
    forge("clear managedFields", NO_OTHER_MANAGERS, {}),
    forge(
        "make a manager up", NO_OTHER_MANAGERS, managed("x", {"f:metadata": {"f:labels": {"f:example.com/pool": {}}}})
    ),
    forge(
        "make a subresource up",
        NO_OTHER_MANAGERS,
        managed(MANAGER, {"f:metadata": {"f:labels": {"f:example.com/pool": {}}}}, subresource="x"),
    ),
    write(
        "speak for another Node",
        OTHER,
        "toposcope switches on node confined-own may not write node confined-other",
        annotations={SWITCHES: "{}"},
    ),
    write("make a Node", GHOST, 'nodes "ghost" is forbidden', annotations={SWITCHES: "{}"}),
    rights.merge("write a status", f"{OWN}/status", {"status": {}}, 'cannot patch resource "nodes/status"'),
    rights.get("list nodes", NODES, 'cannot list resource "nodes"'),
    rights.post("report", EVENTS, rights.event("confined-own.1f"), 'cannot create resource "events"'),
    *rights.anyone_may_not("toposcope-switches"),
)
