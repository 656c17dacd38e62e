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

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import PREFIX
from toposcope.integrations.framework.published import Target, is_ours
from toposcope.integrations.grove.kai_ownership import KAI_SCHEDULER, REFERENCES, is_made_from, names_kai_topology
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
