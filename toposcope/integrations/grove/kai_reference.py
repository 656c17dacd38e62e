"""The entry by which Grove's binding names a KAI Topology of ours: Grove makes none then, it only compares.

Grove's operator does not start while a binding without that entry stands beside a KAI Topology of its name that is not
its own. No write here leads to that, whatever comes after it, a crash of this controller included:

- Ours is there when Grove comes: the binding is made with the entry, in one write. Nothing is deleted.
- Ours is made anew, because its levels changed or somebody deleted it: the entry stays in between.
- Ours is to go (`spec.publish.kai: Never`): first the Topology, then the entry. In between the entry names nothing:
  Grove reports that and starts, and whoever goes on finds an entry of ours that is left over. The other way round, a
  binding without the entry would stand beside our Topology, for as long as nobody goes on.

An annotation tells whose the entry is, and not the ownership of the field: to server-side apply the list is one value,
which passes as a whole to whoever adds an entry for another scheduler.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import PREFIX
from toposcope.integrations.framework.published import GROVE_BINDINGS, GROVE_TOPOLOGIES, KAI_TOPOLOGIES, Target, is_ours
from toposcope.kube.errors import ApiError
from toposcope.topology.levels import Level

NAMED: Final = f"{PREFIX}names-kai-topology"
"""Annotation of a binding: Toposcope wrote its entry for KAI, which names the Topology in the value."""
_BACKEND: Final = ("scheduler backend", "schedulerTopology")
"""What the words have in common with which Grove's webhook refuses an entry."""


def is_named_by_others(binding: Mapping[str, Any] | None) -> bool:
    """Whether an admin has named a KAI Topology in the binding: that entry is none of our business."""
    return binding is not None and names_kai_topology(binding) and _annotation(binding) is None


def is_to_be_named(
    topology: Topology, binding: Mapping[str, Any] | None, kai: Mapping[str, Any] | None, *, served: bool
) -> bool:
    """Whether the binding (None: still to be made) is to name the KAI Topology of its name, as it is just now.

    `served` tells whether there could be one. Not to be asked of a binding in which others have named one.
    """
    named = binding is not None and names_kai_topology(binding)
    never = topology.publish.get("kai") == "Never"
    if kai is None:
        # Ours will be made again, unless Never; and without KAI's kind Grove does not start with anything else.
        return named and not (never and served)
    if is_ours(kai, topology):
        return not never
    # Somebody else's that came later needs the entry just as much; Grove's own does not.
    return named and not is_made_from(kai, binding)


def body_of(
    target: Target,
    topology: Topology,
    levels: Sequence[Level],
    binding: Mapping[str, Any] | None,
    *,
    named: bool,
) -> dict[str, Any]:
    """The binding as it is written over the present one; entries for other schedulers stay."""
    spec: dict[str, Any] = {"levels": [{"domain": level.domain, "key": level.key} for level in levels]}
    field = REFERENCES[target.kind]
    entries = ((binding or {}).get("spec") or {}).get(field)
    if not is_named_by_others(binding) and (named or entries is not None):
        # An empty list and no absent one: what somebody else has written too would stay when we let go of it.
        ours = [{"schedulerName": KAI_SCHEDULER, "topologyReference": target.name}] if named else []
        spec[field] = [entry for entry in entries or () if entry["schedulerName"] != KAI_SCHEDULER] + ours
    body = target.body(topology, spec)
    if named:
        body["metadata"]["annotations"] = {NAMED: target.name}
    return body


def says(binding: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether the binding has everything that it would be written with."""
    spec, wanted = binding.get("spec") or {}, body["spec"]
    return all(spec.get(field) == value for field, value in wanted.items()) and _annotation(binding) == _annotation(
        body
    )


def groves_complaint(binding: Mapping[str, Any]) -> str:
    """What Grove says of a KAI Topology that the binding names, and that differs; empty: nothing that is of today."""
    status = binding.get("status") or {}
    if not names_kai_topology(binding) or status.get("observedGeneration") != binding["metadata"].get("generation"):
        return ""
    about = (s for s in status.get("schedulerTopologyStatuses") or () if s["schedulerName"] == KAI_SCHEDULER)
    return "; ".join(
        f"Grove says of KAI's Topology {each['topologyReference']}: {each.get('message') or 'not in sync'}"
        for each in about
        if not each["inSync"]
    )


def refusal(target: Target, error: ApiError) -> str:
    """What to do when the server refuses the entry; empty when it refuses something else."""
    if not any(word in error.message for word in _BACKEND):
        return ""
    return (
        f"the binding names the KAI Topology {target.name}, which Toposcope keeps, and Grove refuses that: enable the "
        f"backend {KAI_SCHEDULER} in Grove's configuration, or set spec.publish.grove to Never; or set "
        "spec.publish.kai to Never, and the Topology is deleted so that Grove makes its own"
    )


def _annotation(document: Mapping[str, Any]) -> str | None:
    annotations: Mapping[str, str] = document["metadata"].get("annotations") or {}
    return annotations.get(NAMED)


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
