"""Who writes the backend's Topology, and the entry by which Grove's binding names Toposcope's.

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

An annotation for each backend marks its entry as ours, not field ownership: to server-side apply
the list is one value, which passes as a whole to whoever adds an entry for another scheduler.

Which backends Grove has is in the configuration of its operator, which is not read: its webhook
refuses an entry for any other. So `spec.bindingSchedulers` lists those that are named whatever
there was before: where a profile has `topologyBindingPolicy: ReferenceRequired`, Grove makes no
Topology, and refuses sets whose binding names none (GREP-617).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.integrations.framework.published import Target, is_ours
from toposcope.integrations.grove import backend
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES
from toposcope.integrations.grove.named_backend import BACKENDS, USUAL, NamedBackend
from toposcope.integrations.grove.topology import entries as level_entries
from toposcope.kube.errors import ApiError

REFERENCES: Final = {
    BINDINGS.kind: "schedulerTopologyBindings",
    OLDER_TOPOLOGIES.kind: "schedulerTopologyReferences",
}
"""For each kind, the field of `spec` that names the topologies of schedulers."""
_ANNOTATIONS: Final = frozenset(of.annotation for of in BACKENDS)
_REFUSALS: Final = ("scheduler backend", "schedulerTopology")
"""Each message with which Grove's webhook rejects an entry contains one of these."""


def names_topology(binding: Mapping[str, Any], of: NamedBackend = USUAL) -> bool:
    """Whether the binding names a Topology that others write, so that Grove creates none."""
    spec = binding.get("spec") or {}
    for field in REFERENCES.values():
        entries = spec.get(field) or ()
        if any(entry["schedulerName"] == of.scheduler for entry in entries):
            return True
    return False


def made_by_grove(existing: Mapping[str, Any], name: str) -> bool:
    """Whether Grove created the Topology from a binding of that name, perhaps an earlier one."""
    owner = _controller(existing)
    api_version = str(owner.get("apiVersion"))
    group, _, _ = api_version.partition("/")
    if group != BINDINGS.group:
        return False
    if owner.get("kind") not in REFERENCES:
        return False
    return owner.get("name") == name


def made_from(existing: Mapping[str, Any], binding: Mapping[str, Any] | None) -> bool:
    """Whether Grove created the Topology from exactly this binding."""
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


def is_named_by_others(binding: Mapping[str, Any] | None, of: NamedBackend = USUAL) -> bool:
    """Whether an administrator named a Topology in the binding, which Toposcope never changes."""
    if binding is None or not names_topology(binding, of):
        return False
    return of.annotation not in _annotations(binding)


def is_listed(topology: Topology, of: NamedBackend) -> bool:
    """Whether the spec lists the backend, so that the binding must name its Topology."""
    return of.scheduler in (topology.binding_schedulers or ())


def should_name_listed(
    topology: Topology, of: NamedBackend, existing: Mapping[str, Any] | None, *, is_served: bool
) -> bool:
    """Whether the binding names the Topology of a backend that the spec lists.

    It does before the Topology exists, so that Grove creates none. A Topology that is no longer
    published is named as long as it exists, unless Grove created it.
    """
    if topology.mode(of.topologies.option) == "Auto":
        return is_served or existing is not None
    return existing is not None and not made_by_grove(existing, topology.name)


def should_name(
    topology: Topology,
    binding: Mapping[str, Any] | None,
    existing: Mapping[str, Any] | None,
    *,
    is_served: bool,
) -> bool:
    """Whether the binding should name the Topology of its name, now `existing`.

    The binding is None if it is not created yet. Not for bindings in which others have named a
    Topology. `is_served` is whether the API server has the Topology's kind.
    """
    named = binding is not None and names_topology(binding)
    mode = topology.publish.get(backend.TOPOLOGIES.option)
    never = mode == "Never"

    if existing is None:
        # Ours will be created again, unless Never; and without its kind Grove does not start with
        # anything else.
        return named and not (never and is_served)
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
    named: Collection[NamedBackend],
) -> dict[str, Any]:
    """The binding to apply over the current one, naming our Topologies of these backends.

    Keeps the entries of others.
    """
    spec: dict[str, Any] = {"levels": level_entries(levels)}
    field = REFERENCES[target.kind]
    spec_before = (binding or {}).get("spec") or {}
    existing = spec_before.get(field)
    if named or _may_have_ours(binding, existing):
        # An empty list, not an absent one: a value that somebody else has applied too would stay
        # when we let go of it.
        spec[field] = _entries(existing or (), binding, named, target.name)

    body = target.body(topology, spec)
    if named:
        body["metadata"]["annotations"] = {of.annotation: target.name for of in named}
    return body


def _may_have_ours(binding: Mapping[str, Any] | None, existing: object) -> bool:
    """Whether some entries of a binding may be ours."""
    if binding is None or existing is None:
        return False
    return bool(_named_in(binding)) or not is_named_by_others(binding)


def _entries(
    existing: Iterable[Mapping[str, Any]],
    binding: Mapping[str, Any] | None,
    named: Collection[NamedBackend],
    name: str,
) -> list[Mapping[str, Any]]:
    """The entries that others wrote, and those that name our Topologies."""
    ours = set()
    for of in BACKENDS:
        if of in named or not is_named_by_others(binding, of):
            ours.add(of.scheduler)
    entries = [entry for entry in existing if entry["schedulerName"] not in ours]
    for of in named:
        entries.append({"schedulerName": of.scheduler, "topologyReference": name})
    return entries


def matches(binding: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether the binding already has everything that `body` would write."""
    spec = binding.get("spec") or {}
    for field, value in body["spec"].items():
        if spec.get(field) != value:
            return False
    return _named_in(binding) == _named_in(body)


def reported_drift(binding: Mapping[str, Any]) -> str:
    """Grove's report on a Topology that the binding names; empty unless it differs."""
    status = binding.get("status") or {}
    generation = binding["metadata"].get("generation")
    if status.get("observedGeneration") != generation:
        return ""

    titles = {}
    for of in BACKENDS:
        if names_topology(binding, of):
            titles[of.scheduler] = of.title
    reports = []
    for report in status.get("schedulerTopologyStatuses") or ():
        scheduler = report["schedulerName"]
        if scheduler not in titles or report["inSync"]:
            continue
        name = report["topologyReference"]
        message = report.get("message") or "not in sync"
        reports.append(f"Grove reports on {titles[scheduler]}'s Topology {name}: {message}")
    return "; ".join(reports)


def refusal_fix(target: Target, error: ApiError, named: Collection[NamedBackend]) -> str:
    """The fix if the server rejects an entry; empty if it rejects something else."""
    if not any(phrase in error.message for phrase in _REFUSALS):
        return ""
    listed = [of for of in named if of is not USUAL]
    if not listed:
        return _usual_fix(target)
    fixes = []
    for of in listed:
        fixes.append(
            f"the binding names {of.title}'s Topology {target.name}, because "
            f"spec.bindingSchedulers lists {of.scheduler}: add a profile {of.scheduler} to "
            "Grove's operator, or remove it from the list"
        )
    return "; ".join(fixes)


def _usual_fix(target: Target) -> str:
    return (
        f"the binding names the {backend.TITLE} Topology {target.name}, "
        "which Toposcope keeps, and Grove "
        f"refuses that: enable the backend {backend.SCHEDULER} in Grove's configuration, or set "
        f"spec.publish.{target.option} to Never; "
        f"or set spec.publish.{backend.TOPOLOGIES.option} to Never, and the Topology is "
        "deleted so that Grove makes its own"
    )


def _annotations(document: Mapping[str, Any]) -> Mapping[str, str]:
    annotations: Mapping[str, str] = document["metadata"].get("annotations") or {}
    return annotations


def _named_in(document: Mapping[str, Any]) -> dict[str, str]:
    """The annotations that mark entries as Toposcope's."""
    marked = {}
    for name, value in _annotations(document).items():
        if name in _ANNOTATIONS:
            marked[name] = value
    return marked
