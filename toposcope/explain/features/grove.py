"""Grove: topology-aware scheduling is on, and its PodGangs carry the constraint.

Reasons of the condition `TopologyLevelsUnavailable`: Grove 0.1.0-alpha.9 and later. Grove compares names only and
reads no node, so its condition is quoted and not taken for the truth about levels.
"""

from collections.abc import Iterator
from typing import Any, Final

from toposcope.explain.context import Context, asked
from toposcope.explain.features import NAME
from toposcope.explain.kinds import CLIQUE_SET, GANG
from toposcope.explain.object_store import Condition, Ref, condition
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.integrations.framework.document import Field

CONDITION: Final = "TopologyLevelsUnavailable"
_OFF: Final = "TopologyAwareSchedulingDisabled"
_MISSING: Final = frozenset({"TopologyNameMissing", "ClusterTopologyNotFound", "ClusterTopologyLevelsUnavailable"})
_TOPOLOGY_NAME: Final = "grove.io/topology-name"


def look(context: Context) -> Iterator[Step]:
    """What Grove says about the PodCliqueSet, and what it made of it."""
    if not asked(group for workload in context.workloads for group in workload.groups):
        return
    for ref, document in context.members(CLIQUE_SET):
        said = condition(document, CONDITION)
        yield _condition(ref, said)
        yield from _gangs(context, said)


def _condition(ref: Ref, said: Condition | None) -> Step:
    describe = f"kubectl describe pcs {ref.name} -n {ref.namespace}"
    if said is None:
        return unknown(
            NAME,
            f"Grove has not said whether it keeps the topology constraints of {ref.handle}: there is no condition "
            f"{CONDITION}",
            "either its operator has not come to it, or it is older than 0.1.0-alpha.9 and topology-aware scheduling "
            "is off",
            commands=(describe,),
        )
    if said.reason == _OFF:
        return failed(
            NAME,
            f"Grove's topology-aware scheduling is off ({_OFF}): {said.message}",
            "its pods are placed without the constraint; switch it on in the configuration of Grove's operator "
            "(Helm value config.topologyAwareScheduling.enabled: true), then create the PodCliqueSet anew",
            commands=(describe, "helm list -A --filter grove"),
        )
    if said.reason in _MISSING:
        return unknown(
            NAME,
            f"Grove says {CONDITION}={said.status} ({said.reason}): {said.message}",
            "what is in the cluster now says otherwise; Grove may not have come to it since",
            commands=(describe,),
        )
    return passed(NAME, "Grove's topology-aware scheduling is on")


def _gangs(context: Context, said: Condition | None) -> Iterator[Step]:
    """A PodGang that was made while topology or level were gone lacks the constraint, and keeps lacking it."""
    if said and said.reason == _OFF:
        return
    for ref, document in context.members(GANG):
        root = Field(document)
        named = (root / "metadata" / "annotations" / _TOPOLOGY_NAME).text()
        if not named and not _packs(root.value):
            yield failed(
                NAME,
                f"{ref.handle} was made without the topology constraint, so its pods are placed anywhere",
                "Grove leaves it out of PodGangs that it makes while the topology or the level is not there; "
                "once both are there, create the PodCliqueSet anew",
                commands=(f"kubectl get {GANG.name} {ref.name} -n {ref.namespace} -o yaml",),
            )


def _packs(value: Any) -> bool:
    """Whether a pack constraint stands anywhere in the document."""
    if isinstance(value, dict):
        return any((name == "packConstraint" and inner) or _packs(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(_packs, value))
