"""The Topology that Grove creates from its binding: all that KAI's files know of Grove."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.integrations.framework.published import Target
from toposcope.integrations.grove import topology_reference
from toposcope.integrations.grove.api import BINDINGS
from toposcope.integrations.grove.topology import target
from toposcope.integrations.kai.api import KAI_SCHEDULER, TOPOLOGIES

Document = Mapping[str, Any]

BINDING_API: Final = BINDINGS.api_version()
LEFT_OVER: Final = (
    "is still the one that Grove created from a deleted ClusterTopologyBinding, and will be "
    "deleted with it"
)
NOT_NAMED: Final = "stays unchanged until Grove's ClusterTopologyBinding names it"
MAKES_ITS_OWN: Final = "so that Grove can create its own"
MADE: Final = "created by Grove from its ClusterTopologyBinding"
OF_ANOTHER_BINDING: Final = (
    "Grove creates it from a ClusterTopologyBinding of this name that Toposcope did not create; "
    "give the ClusterTopology another name"
)
NOT_IN_LINE: Final = "Grove has not updated it to its ClusterTopologyBinding yet"
NOT_MADE_YET: Final = (
    "Grove has not created it from its ClusterTopologyBinding yet; is Grove's operator running, "
    f"with {KAI_SCHEDULER} enabled? Where its profile has topologyBindingPolicy "
    f"ReferenceRequired, list {KAI_SCHEDULER} in spec.bindingSchedulers. "
    "If KAI is used without Grove, set "
    f"spec.publish.{BINDINGS.option} to Never; "
    f"if it is not used, spec.publish.{TOPOLOGIES.option}"
)


def binding_target(resources: Collection[str], name: str) -> Target | None:
    """The binding of this name, if its API is served; None if it cannot exist."""
    return target(resources, name)


def is_made(existing: Document, name: str) -> bool:
    """Whether the operator created the Topology from a binding of that name, old or current."""
    return topology_reference.made_by_grove(existing, name)


def is_made_from(existing: Document, binding: Document | None) -> bool:
    """Whether the operator created the Topology from exactly this binding."""
    return topology_reference.made_from(existing, binding)


def is_leftover(existing: Document, name: str, binding: Document | None) -> bool:
    """Whether the operator created the Topology from a binding that no longer exists."""
    if not is_made(existing, name):
        return False
    return not is_made_from(existing, binding)


def is_left_to_operator(topology: Topology, binding: Document | None) -> bool:
    """Whether the operator is installed and creates the Topology, now or with its binding."""
    if binding is not None:
        return not topology_reference.names_topology(binding)
    mode = topology.publish.get(BINDINGS.option, "Auto")
    return mode == "Auto"
