"""Who writes the KAI Topology of a name: Grove or Toposcope.

From v0.1.0-alpha.9 on, and in the development versions before it, Grove makes a KAI Topology of its own for every
ClusterTopologyBinding that does not name one. Its operator exits at its next start when somebody else's has that name.
A KAI Topology of ours that is there when Grove comes is named in the binding (see `naming`) and stays ours.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from toposcope.integrations.framework.published import Target
from toposcope.integrations.framework.published_kinds import GROVE_BINDINGS, GROVE_TOPOLOGIES, KAI_TOPOLOGIES

GROVE_API: Final = f"{GROVE_BINDINGS.group}/{GROVE_BINDINGS.versions[0]}"
BINDING: Final = "ClusterTopologyBinding"
BINDINGS: Final = GROVE_BINDINGS.plural
OLDER: Final = "ClusterTopology"
OLDER_ONES: Final = GROVE_TOPOLOGIES.plural
KAI_API: Final = f"{KAI_TOPOLOGIES.group}/{KAI_TOPOLOGIES.versions[0]}"
TOPOLOGIES: Final = KAI_TOPOLOGIES.plural
KAI_SCHEDULER: Final = "kai-scheduler"
REFERENCES: Final = {BINDING: "schedulerTopologyBindings", OLDER: "schedulerTopologyReferences"}
"""By kind: the field of `spec` with which topologies of schedulers are named."""


def grove_target(resources: Collection[str], name: str) -> Target | None:
    """What is written for Grove, where these resources of its API are served; None: nothing of ours to write.

    The ClusterTopology of v0.1.0-alpha.4 to alpha.8 has no status and is its operator's. The one of the development
    versions after them has one, and is the binding under another name.
    """
    if BINDINGS in resources:
        return binding_target(name)
    return older_target(name) if f"{OLDER_ONES}/status" in resources else None


def binding_target(name: str) -> Target:
    """Grove's binding of that name."""
    return Target("grove", GROVE_API, BINDING, BINDINGS, name)


def older_target(name: str) -> Target:
    """Grove's ClusterTopology of that name."""
    return Target("grove", GROVE_API, OLDER, OLDER_ONES, name)


def kai_target(name: str) -> Target:
    """KAI's Topology of that name."""
    return Target("kai", KAI_API, "Topology", TOPOLOGIES, name)


def names_kai_topology(binding: Mapping[str, Any]) -> bool:
    """Whether the binding names a KAI Topology that others write, so that Grove makes none."""
    spec = binding.get("spec") or {}
    return any(
        entry["schedulerName"] == KAI_SCHEDULER for field in REFERENCES.values() for entry in spec.get(field) or ()
    )


def is_groves(kai: Mapping[str, Any], name: str) -> bool:
    """Whether Grove made the KAI Topology, from the present binding of that name or from an earlier one."""
    owner = _controller(kai)
    group = str(owner.get("apiVersion")).partition("/")[0]
    return group == GROVE_BINDINGS.group and owner.get("kind") in {BINDING, OLDER} and owner.get("name") == name


def is_made_from(kai: Mapping[str, Any], binding: Mapping[str, Any] | None) -> bool:
    """Whether Grove made the KAI Topology from this very binding."""
    return binding is not None and _controller(kai).get("uid") == binding["metadata"]["uid"]


def _controller(document: Mapping[str, Any]) -> Mapping[str, Any]:
    owners: tuple[Mapping[str, Any], ...] = tuple(document["metadata"].get("ownerReferences") or ())
    return next((owner for owner in owners if owner.get("controller")), {})
