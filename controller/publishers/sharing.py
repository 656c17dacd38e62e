"""Who writes the KAI Topology of a name: Grove or Toposcope.

From v0.1.0-alpha.9 on Grove makes a KAI Topology of its own for every ClusterTopologyBinding that does not name one in
`schedulerTopologyBindings`. Its operator exits at its next start when somebody else's KAI Topology has that name.
"""

from collections.abc import Mapping
from typing import Any, Final

from controller.publishers.target import Target

GROVE_API: Final = "grove.io/v1alpha1"
BINDING: Final = "ClusterTopologyBinding"
BINDINGS: Final = "clustertopologybindings"
KAI_API: Final = "kai.scheduler/v1alpha1"
TOPOLOGIES: Final = "topologies"
_KAI: Final = "kai-scheduler"


def binding_target(name: str) -> Target:
    """Grove's binding of that name."""
    return Target("grove", GROVE_API, BINDING, BINDINGS, name)


def kai_target(name: str) -> Target:
    """KAI's Topology of that name."""
    return Target("kai", KAI_API, "Topology", TOPOLOGIES, name)


def names_kai_topology(binding: Mapping[str, Any]) -> bool:
    """Whether the binding names a KAI Topology that others write, so that Grove makes none."""
    entries = (binding.get("spec") or {}).get("schedulerTopologyBindings") or ()
    return any(entry["schedulerName"] == _KAI for entry in entries)


def is_groves(kai: Mapping[str, Any], name: str) -> bool:
    """Whether Grove made the KAI Topology, from the present binding of that name or from an earlier one."""
    owner = _controller(kai)
    return (owner.get("kind"), owner.get("name")) == (BINDING, name)


def is_made_from(kai: Mapping[str, Any], binding: Mapping[str, Any] | None) -> bool:
    """Whether Grove made the KAI Topology from this very binding."""
    return binding is not None and _controller(kai).get("uid") == binding["metadata"]["uid"]


def _controller(document: Mapping[str, Any]) -> Mapping[str, Any]:
    owners: tuple[Mapping[str, Any], ...] = tuple(document["metadata"].get("ownerReferences") or ())
    return next((owner for owner in owners if owner.get("controller")), {})
