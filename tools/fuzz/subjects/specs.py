"""ClusterTopologies as no admission ever let them through, read by the controller and from files."""

from typing import Any, Final

import msgspec

from tools.fuzz.material import spoiled
from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.api.cluster_topology import read
from toposcope.api.effective_levels import Absences
from toposcope.api.label_keys import GPUS
from toposcope.controller.assess.assessment import assess
from toposcope.controller.status import conditions_of
from toposcope.snapshot.decode import topology_of
from toposcope.topology.node import node_facts

_GOOD: Final[dict[str, Any]] = {
    "apiVersion": "gpu.topology/v1alpha1",
    "kind": "ClusterTopology",
    "metadata": {
        "name": "cluster",
        "uid": "u",
        "generation": 1,
        "labels": {"app.kubernetes.io/managed-by": "toposcope"},
        "ownerReferences": [{"kind": "ClusterTopology", "name": "all", "uid": "v", "controller": True}],
    },
    "spec": {
        "nodeSelector": {
            "matchLabels": {"pool": "a"},
            "matchExpressions": [{"key": GPUS, "operator": "In", "values": ["8"]}, {"key": "x", "operator": "Exists"}],
        },
        "levels": [{"domain": "rack", "key": "example.com/rack"}, {"domain": "host", "key": "kubernetes.io/hostname"}],
        "required": ["rack"],
        "gracePeriod": "10m",
        "removalPolicy": "Retain",
        "segments": "Off",
        "publish": {"grove": "Auto", "kai": "Never", "kueue": "DryRun"},
    },
    "status": {
        "levels": [{"domain": "rack", "key": "example.com/rack", "available": False, "expired": True}],
        "conditions": [{"type": "TopologyLevelsAvailable", "status": "False", "message": "rack", "reason": "X"}],
        "preferredBy": [{"domain": "rack", "workloads": 2, "available": False}],
    },
}
_NODES: Final = tuple(
    node_facts(f"n{i}", f"u{i}", ("example.com/rack", GPUS, "pool"), (f"r{i % 2}", "8", "a"), True, True, 8)
    for i in range(4)
)


def attempt(case: Any) -> Outcome:
    """Read with its problems in words, assessed without a crash."""
    if not _is_json(case):
        return "refused"  # neither a server nor a file gives such a thing
    try:
        topology_of(case)
    except ValueError as error:
        refusal(error)
    if not _is_object(case):
        return "refused"  # the collection never holds it
    topology = read(case)
    for problem in topology.problems:
        refusal(problem)
    found = assess(topology, _NODES, Absences(), 0.0)
    for condition in conditions_of(topology, found, (), anything_served=True):
        held(condition.message.strip(), f"condition {condition.type} says nothing")
        refusal(condition.message)
    return "refused" if topology.problems else "taken"


def _is_json(case: Any) -> bool:
    try:
        msgspec.json.encode(case)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True


def _is_object(case: Any) -> bool:
    """What any API server sees to, whatever the CRD says: an object with a name and a uid."""
    metadata = case.get("metadata") if isinstance(case, dict) else None
    if not isinstance(metadata, dict):
        return False
    texts = all(isinstance(metadata.get(field), str) for field in ("name", "uid"))
    return texts and isinstance(metadata.get("generation", 0), int)


SPECS: Final = Subject(
    "specs",
    "a ClusterTopology that the CRD would have refused is reported in words and crashes nothing",
    spoiled([_GOOD], "rack", "host", "zone", GPUS, "In", "Exists", "Auto", "Never", "1h30m"),
    attempt,
)
