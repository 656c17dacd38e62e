"""Who writes the backend's Topology of a name, and the entry by which Grove's binding names ours.

From v0.1.0-alpha.9 on, and in the development versions before it, Grove makes a Topology for every
ClusterTopologyBinding that does not name one; where the binding names one, it only compares.
Grove's operator does not start while a binding without that entry stands beside a Topology of
its name that it did not make. No write here leads to that state, even if this controller crashes
after any of them:

- Ours exists when Grove is installed: the binding is created with the entry, in one write. Nothing
  is deleted.
- Ours is created again, because its levels changed or somebody deleted it: the entry stays in
  between.
- Ours is to go (`Never` in `spec.publish`): first the Topology, then the entry. In between the
  entry names nothing: Grove reports that and starts, and the next pass finds a leftover entry of
  ours. The other way round, a binding without the entry would stand beside our Topology until the
  next pass.

An annotation marks the entry as ours, not field ownership: to server-side apply the list is one
value, which passes as a whole to whoever adds an entry for another scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.integrations.framework.published import Target, is_ours
from toposcope.integrations.grove import backend
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES
from toposcope.integrations.grove.topology import entries as level_entries
from toposcope.kube.errors import ApiError

REFERENCES: Final = {
    BINDINGS.kind: "schedulerTopologyBindings",
    OLDER_TOPOLOGIES.kind: "schedulerTopologyReferences",
}
"""By kind: the field of `spec` that names topologies of schedulers."""
_REFUSALS: Final = ("scheduler backend", "schedulerTopology")
"""One of these is in each message with which Grove's webhook refuses an entry."""


def names_topology(binding: Mapping[str, Any]) -> bool:
    """Whether the binding names a Topology that others write, so that Grove makes none."""
    spec = binding.get("spec") or {}
    for field in REFERENCES.values():
        entries = spec.get(field) or ()
        if any(entry["schedulerName"] == backend.SCHEDULER for entry in entries):
            return True
    return False


def made_by_grove(existing: Mapping[str, Any], name: str) -> bool:
    """Whether Grove made the Topology from a binding of that name, maybe an earlier one."""
    owner = _controller(existing)
    api_version = str(owner.get("apiVersion"))
    group, _, _ = api_version.partition("/")
    if group != BINDINGS.group:
        return False
    if owner.get("kind") not in REFERENCES:
        return False
    return owner.get("name") == name


def made_from(existing: Mapping[str, Any], binding: Mapping[str, Any] | None) -> bool:
    """Whether Grove made the Topology from this very binding."""
    if binding is None:
        return False
    uid: str = binding["metadata"]["uid"]
    return uid == _controller(existing).get("uid")


def _controller(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The owner that controls the object; empty without one."""
    owners: Sequence[Mapping[str, Any]] = document["metadata"].get("ownerReferences") or ()
    for owner in owners:
        if owner.get("controller"):
            return owner
    return {}


def is_named_by_others(binding: Mapping[str, Any] | None) -> bool:
    """Whether an admin named a Topology in the binding: that entry is not ours to change."""
    if binding is None or not names_topology(binding):
        return False
    return _annotation(binding) is None


def should_name(
    topology: Topology,
    binding: Mapping[str, Any] | None,
    existing: Mapping[str, Any] | None,
    *,
    served: bool,
) -> bool:
    """Whether the binding should name the Topology of its name, which is `existing` now.

    The binding is None where it is not created yet; not for one in which others have named a
    Topology. `served` says whether the API server has the Topology's kind.
    """
    named = binding is not None and names_topology(binding)
    mode = topology.publish.get(backend.TOPOLOGIES.option)
    never = mode == "Never"

    if existing is None:
        # Ours will be created again, unless Never; and without its kind Grove does not start with
        # anything else.
        return named and not (never and served)
    if is_ours(existing, topology):
        return not never
    # Somebody else's that came later needs the entry as well; Grove's own does not.
    return named and not made_from(existing, binding)


def body_of(
    target: Target,
    topology: Topology,
    levels: Sequence[Level],
    binding: Mapping[str, Any] | None,
    *,
    named: bool,
) -> dict[str, Any]:
    """The binding to write over the present one; entries for other schedulers stay."""
    spec: dict[str, Any] = {"levels": level_entries(levels)}
    if not is_named_by_others(binding):
        field = REFERENCES[target.kind]
        spec_before = (binding or {}).get("spec") or {}
        existing = spec_before.get(field)
        if named or existing is not None:
            # An empty list, not an absent one: a value that somebody else has applied too would
            # stay when we let go of it.
            name = target.name if named else ""
            spec[field] = _entries(existing or (), name)

    body = target.body(topology, spec)
    if named:
        body["metadata"]["annotations"] = {backend.NAMED: target.name}
    return body


def _entries(existing: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """The entries for other schedulers, and one that names our Topology if it has a name."""
    entries = [entry for entry in existing if entry["schedulerName"] != backend.SCHEDULER]
    if name:
        entries.append({"schedulerName": backend.SCHEDULER, "topologyReference": name})
    return entries


def matches(binding: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether the binding already has everything that `body` would write."""
    spec = binding.get("spec") or {}
    for field, value in body["spec"].items():
        if spec.get(field) != value:
            return False
    return _annotation(binding) == _annotation(body)


def reported_drift(binding: Mapping[str, Any]) -> str:
    """What Grove says of a Topology that the binding names; empty unless it says it differs."""
    status = binding.get("status") or {}
    generation = binding["metadata"].get("generation")
    is_current = status.get("observedGeneration") == generation
    if not is_current or not names_topology(binding):
        return ""

    reports = []
    for report in status.get("schedulerTopologyStatuses") or ():
        if report["schedulerName"] != backend.SCHEDULER or report["inSync"]:
            continue
        name = report["topologyReference"]
        message = report.get("message") or "not in sync"
        reports.append(f"Grove says of {backend.TITLE}'s Topology {name}: {message}")
    return "; ".join(reports)


def refusal_fix(target: Target, error: ApiError) -> str:
    """What to do when the server refuses the entry; empty when it refuses something else."""
    if not any(phrase in error.message for phrase in _REFUSALS):
        return ""
    return (
        f"the binding names the {backend.TITLE} Topology {target.name}, "
        "which Toposcope keeps, and Grove "
        f"refuses that: enable the backend {backend.SCHEDULER} in Grove's configuration, or set "
        f"spec.publish.{target.option} to Never; "
        f"or set spec.publish.{backend.TOPOLOGIES.option} to Never, and the Topology is "
        "deleted so that Grove makes its own"
    )


def _annotation(document: Mapping[str, Any]) -> str | None:
    annotations: Mapping[str, str] = document["metadata"].get("annotations") or {}
    return annotations.get(backend.NAMED)
