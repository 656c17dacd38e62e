"""Which scheduler places the pods of a PodCliqueSet, and whether it keeps them together.

A clique without a scheduler gets that of the default profile in the configuration of Grove's
operator: default-scheduler, unless `scheduler.defaultProfileName` says otherwise; Grove's charts
through v0.1.0-alpha.12 do not set it. Through that version only one backend is topology-aware:
Grove rejects constraints with volcano and lpx-scheduler, and accepts them with default-scheduler,
which ignores them. Later ones have other backends that keep constraints, whose topology the binding
must name unless the profile's `topologyBindingPolicy` is AutoCreate (GREP-617, GREP-704); and
default-scheduler may get gangs (`config.gangScheduling`, GREP-531). Rules and messages: Grove's
webhook, main of 2026-08-19; it has profiles since v0.1.0-alpha.8, and requires a queue of that
backend after v0.1.0-alpha.12.
"""

from typing import Any, Final

from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.grove import backend, kueue_backend

_REFUSING: Final = ("volcano", "lpx-scheduler")
"""Backends that reject constraints and that the charts do not enable (v0.1.0-alpha.10 did)."""
_AUTO_CREATE: Final = "AutoCreate"
_KEEPING_NONE: Final = (DEFAULT_SCHEDULER, *_REFUSING)
_DEFAULT_POLICIES: Final = dict.fromkeys((backend.SCHEDULER, *_KEEPING_NONE), _AUTO_CREATE)
"""The `topologyBindingPolicy` of profiles that set none; all others have ReferenceRequired."""
_CHARTS: Final = SchedulerProfiles((DEFAULT_SCHEDULER, backend.SCHEDULER), DEFAULT_SCHEDULER)
WHERE: Final = "kubectl get configmap -A -l app.kubernetes.io/name=grove-operator -o yaml"
"""Shows the configuration of Grove's operator."""
USE_BACKEND: Final = (
    f"set schedulerName: {backend.SCHEDULER} in the podSpec of every clique, and label the set "
    f"with {backend.QUEUE}"
)


def profiles_of(configuration: Any) -> SchedulerProfiles:
    """The schedulers of an OperatorConfiguration, which may be malformed, with defaults."""
    root = Field(configuration)
    scheduler = root / "scheduler"
    enabled: dict[str, None] = {}
    named_topologies = []
    makes_gangs = False
    for profile in (scheduler / "profiles").items():
        name = (profile / "name").text()
        if not name:
            continue
        enabled[name] = None
        policy = (profile / "topologyBindingPolicy").text() or _DEFAULT_POLICIES.get(name)
        if policy != _AUTO_CREATE:
            named_topologies.append(name)
        if name == DEFAULT_SCHEDULER:
            makes_gangs = (profile / "config" / "gangScheduling").value is True
    enabled[DEFAULT_SCHEDULER] = None

    topology_aware = root / "topologyAwareScheduling" / "enabled"
    mnnvl = root / "network" / "autoMNNVLEnabled"
    return SchedulerProfiles(
        enabled=tuple(enabled),
        default=(scheduler / "defaultProfileName").text() or DEFAULT_SCHEDULER,
        is_topology_aware=topology_aware.value is True,
        has_mnnvl=mnnvl.value is True,
        named_topologies=tuple(named_topologies),
        has_default_scheduler_gangs=makes_gangs,
    )


def check_schedulers(
    root: Field, profiles: SchedulerProfiles | None, *, has_constraint: bool, is_submitted: bool
) -> str:
    """The scheduler of all pods; empty if Grove's default decides and is unknown.

    `profiles` are those of Grove's operator, None if unknown. `is_submitted` if the set is new or
    changes.
    """
    cliques = list((root / "spec" / "template" / "cliques").items())
    if not cliques:
        return ""
    fields = [clique / "spec" / "podSpec" / "schedulerName" for clique in cliques]
    default = (profiles or _CHARTS).default
    names = [field.text() or default for field in fields]

    name = names[0]
    different = set(names)
    if len(different) > 1:
        _note_several(fields, names, default)
    elif not _check_profile(fields[0], name, profiles, has_constraint=has_constraint):
        return ""
    _check_for_scheduler(root, name, is_submitted=is_submitted)
    return name


def _check_for_scheduler(root: Field, name: str, *, is_submitted: bool) -> None:
    """Note what this scheduler requires."""
    if name == backend.SCHEDULER and is_submitted:
        cliques = list((root / "spec" / "template" / "cliques").items())
        _check_queue(root, cliques)
    if name == kueue_backend.SCHEDULER:
        kueue_backend.check_set(root)


def _note_several(fields: list[Field], names: list[str], default: str) -> None:
    """Note the first clique with a scheduler other than the first clique's."""
    fix = f"set schedulerName: {backend.SCHEDULER} in the podSpec of every clique"
    if not all(field.text() for field in fields):
        fix += f"; if unset, Grove uses {default}"
    text = "the schedulerName for all pods have to be the same"
    for field, name in zip(fields, names, strict=True):
        if name != names[0]:
            field.error("grove/one-scheduler", text, fix)
            return


def _check_profile(
    field: Field, name: str, profiles: SchedulerProfiles | None, *, has_constraint: bool
) -> bool:
    """Note a scheduler that is not enabled or ignores constraints. Returns whether it is known."""
    if name not in (profiles or _CHARTS).enabled:
        may_be = profiles is None and name in _may_be_enabled(has_constraint=has_constraint)
        _check_disabled(field, name, is_certain=not may_be)
        return True
    if has_constraint:
        return _check_constrained(field, name, profiles)
    return True


def _may_be_enabled(*, has_constraint: bool) -> tuple[str, ...]:
    """Whether the operator may have a profile for this backend, though the charts have none."""
    if has_constraint:
        return (kueue_backend.SCHEDULER,)
    return (kueue_backend.SCHEDULER, *_REFUSING)


def _check_constrained(field: Field, name: str, profiles: SchedulerProfiles | None) -> bool:
    """Note an enabled scheduler that ignores constraints. Returns whether it is known."""
    if name in _REFUSING:
        text = f"{name} scheduler backend does not support topologyConstraint"
        field.error("grove/scheduler-enabled", text, USE_BACKEND)
    elif name == DEFAULT_SCHEDULER and not field.text() and profiles is None:
        _warn_of_default(field)
        return False
    elif name == DEFAULT_SCHEDULER:
        _warn_of_no_constraint(field, profiles)
    elif name != backend.SCHEDULER and profiles and name in profiles.named_topologies:
        _warn_of_reference(field, name)
    return True


def _warn_of_no_constraint(field: Field, profiles: SchedulerProfiles | None) -> None:
    text = (
        f"{DEFAULT_SCHEDULER} ignores topology constraints: Grove accepts it, and the pods are "
        "placed anywhere"
    )
    if profiles and profiles.has_default_scheduler_gangs:
        text = (
            f"{DEFAULT_SCHEDULER} ignores topology constraints through v0.1.0-alpha.12; later "
            "releases of Grove create gangs for it, which keep only required levels"
        )
    field.warn("grove/scheduler-name", text, USE_BACKEND)


def _warn_of_reference(field: Field, name: str) -> None:
    text = (
        f"Grove creates no topology for {name}, and rejects the set unless its "
        "ClusterTopologyBinding names one"
    )
    fix = (
        f"name it in spec.schedulerTopologyBindings with schedulerName: {name}, "
        "or set topologyBindingPolicy: AutoCreate in its profile"
    )
    if name == kueue_backend.SCHEDULER:
        fix += f"; if Toposcope publishes the binding, list {name} in spec.bindingSchedulers"
    field.warn("grove/scheduler-binding", text, fix)


def _check_disabled(field: Field, name: str, *, is_certain: bool) -> None:
    if is_certain:
        text = (
            "schedulerName must be an enabled scheduler backend; "
            "this scheduler is not enabled in OperatorConfiguration"
        )
        fix = f"set {backend.SCHEDULER}, or enable a profile {name} in Grove's chart"
        field.error("grove/scheduler-enabled", text, fix)
    else:
        text = (
            f"Grove accepts this only if its configuration has a profile {name}; its charts have "
            "none"
        )
        field.warn("grove/scheduler-enabled", text, f"check scheduler.profiles: {WHERE}")


def _warn_of_default(field: Field) -> None:
    text = (
        f"without it, Grove's default profile places the pods: {DEFAULT_SCHEDULER} in its charts, "
        "which ignores topology constraints"
    )
    fix = (
        f"{USE_BACKEND}; or check that scheduler.defaultProfileName is {backend.SCHEDULER}: {WHERE}"
    )
    field.warn("grove/scheduler-default", text, fix)


def _check_queue(root: Field, cliques: list[Field]) -> None:
    """Note a missing queue of the backend, or different queues on the set and its cliques."""
    own = _queue(root / "metadata")
    by_clique = [_queue(clique) for clique in cliques]
    queues = set(by_clique)
    queues.discard("")
    name = f"PodCliqueSet {namespace_of(root)}/{name_of(root)}"
    if own:
        for clique, queue in zip(cliques, by_clique, strict=True):
            if queue not in ("", own):
                clique_name = (clique / "name").text() or ""
                text = (
                    f'{backend.TITLE} queue on {name} is "{own}" but PodClique template '
                    f'"{clique_name}" resolves to "{queue}"'
                )
                clique.error("grove/queue", text, "name one queue")
                return
    elif not queues:
        labels = root / "metadata" / "labels"
        text = f"no {backend.TITLE} queue is configured on {name} or its PodClique templates"
        fix = (
            f"label the set with {backend.QUEUE}: Grove after v0.1.0-alpha.12 rejects it without "
            "a queue"
        )
        labels.warn("grove/queue", text, fix)
    elif len(queues) > 1:
        where = root / "spec" / "template" / "cliques"
        listed = " ".join(sorted(queues))
        text = f"conflicting {backend.TITLE} queues on {name} PodClique templates: [{listed}]"
        where.error("grove/queue", text, "name one queue")


def queue_of(root: Field) -> Field | None:
    """The field with the backend's queue for all pods of a set; None if none or several."""
    own = _queue_field(root / "metadata")
    if own:
        return own
    named: dict[str, Field] = {}
    for clique in (root / "spec" / "template" / "cliques").items():
        field = _queue_field(clique)
        if field:
            named.setdefault(str(field.value), field)
    if len(named) != 1:
        return None
    (only,) = named.values()
    return only


def _queue(metadata: Field) -> str:
    """The queue in a label, else in an annotation; empty without either."""
    field = _queue_field(metadata)
    return str(field.value) if field else ""


def _queue_field(metadata: Field) -> Field | None:
    """The label, else the annotation with a queue; None without either."""
    for place in ("labels", "annotations"):
        field = metadata / place / backend.QUEUE
        if field.text():
            return field
    return None
