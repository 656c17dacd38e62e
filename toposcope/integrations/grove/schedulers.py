"""Which scheduler gets the pods of a PodCliqueSet, and whether it keeps them together.

A clique that names no scheduler gets that of the default profile in the configuration of Grove's
operator: default-scheduler, unless `scheduler.defaultProfileName` says otherwise; Grove's charts
through v0.1.0-alpha.12 do not set it. One backend alone is topology-aware: Grove refuses
constraints with volcano and lpx-scheduler, and accepts them with default-scheduler, which ignores
them. Rules and messages: Grove's webhook, main of 2026-08-19; it has profiles since v0.1.0-alpha.8,
and wants a queue of that backend since after v0.1.0-alpha.12.
"""

from typing import Any, Final

from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.grove import backend

KUBE_SCHEDULER: Final = "default-scheduler"
_REFUSING: Final = ("volcano", "lpx-scheduler")
"""Backends that refuse constraints, and that the charts do not enable (v0.1.0-alpha.10 did)."""
_CHARTS: Final = SchedulerProfiles((KUBE_SCHEDULER, backend.SCHEDULER), KUBE_SCHEDULER)
WHERE: Final = "kubectl get configmap -A -l app.kubernetes.io/name=grove-operator -o yaml"
"""Shows the configuration of Grove's operator."""
USE_BACKEND: Final = (
    f"write schedulerName: {backend.SCHEDULER} in the podSpec of every clique, "
    f"and label the set with {backend.QUEUE}"
)


def profiles_of(configuration: Any) -> SchedulerProfiles:
    """What an OperatorConfiguration, which may be malformed, says of schedulers, with defaults."""
    root = Field(configuration)
    scheduler = root / "scheduler"
    enabled: dict[str, None] = {}
    for profile in (scheduler / "profiles").items():
        name = (profile / "name").text()
        if name:
            enabled[name] = None
    enabled[KUBE_SCHEDULER] = None

    topology_aware = root / "topologyAwareScheduling" / "enabled"
    mnnvl = root / "network" / "autoMNNVLEnabled"
    return SchedulerProfiles(
        enabled=tuple(enabled),
        default=(scheduler / "defaultProfileName").text() or KUBE_SCHEDULER,
        topology_aware=topology_aware.value is True,
        mnnvl=mnnvl.value is True,
    )


def check_schedulers(
    root: Field, profiles: SchedulerProfiles | None, *, constrained: bool, submitted: bool
) -> str:
    """The scheduler of all pods; empty where Grove's default decides and is not known.

    `profiles` are those of Grove's operator, None where they are not known. `submitted`: the set is
    new, or changes.
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
    elif not _check_profile(fields[0], name, profiles, constrained=constrained):
        return ""
    if name == backend.SCHEDULER and submitted:
        _check_queue(root, cliques)
    return name


def _note_several(fields: list[Field], names: list[str], default: str) -> None:
    """Note the first clique with another scheduler than the first one."""
    fix = f"write schedulerName: {backend.SCHEDULER} in the podSpec of every clique"
    if not all(field.text() for field in fields):
        fix += f"; where it is not set, Grove takes {default}"
    text = "the schedulerName for all pods have to be the same"
    for field, name in zip(fields, names, strict=True):
        if name != names[0]:
            field.error("grove/one-scheduler", text, fix)
            return


def _check_profile(
    field: Field, name: str, profiles: SchedulerProfiles | None, *, constrained: bool
) -> bool:
    """Note a scheduler that is not enabled, or keeps no constraint; whether it is known which."""
    if name not in (profiles or _CHARTS).enabled:
        certain = constrained or profiles is not None or name not in _REFUSING
        _check_disabled(field, name, certain=certain)
        return True
    if not constrained:
        return True

    if name in _REFUSING:
        text = f"{name} scheduler backend does not support topologyConstraint"
        field.error("grove/scheduler-enabled", text, USE_BACKEND)
    if name == KUBE_SCHEDULER:
        if not field.text() and profiles is None:
            _warn_of_default(field)
            return False
        text = (
            f"{KUBE_SCHEDULER} keeps no topology constraint: "
            "Grove accepts it, and the pods land anywhere"
        )
        field.warn("grove/scheduler-name", text, USE_BACKEND)
    return True


def _check_disabled(field: Field, name: str, *, certain: bool) -> None:
    if certain:
        text = (
            "schedulerName must be an enabled scheduler backend; "
            "this scheduler is not enabled in OperatorConfiguration"
        )
        fix = f"write {backend.SCHEDULER}, or enable a profile {name} in Grove's chart"
        field.error("grove/scheduler-enabled", text, fix)
    else:
        text = (
            f"Grove accepts this only where its configuration has a profile {name}; "
            "its charts have none"
        )
        field.warn("grove/scheduler-enabled", text, f"look at scheduler.profiles: {WHERE}")


def _warn_of_default(field: Field) -> None:
    text = (
        f"without it, Grove's default profile gets the pods: {KUBE_SCHEDULER} in its charts, "
        "which keeps no topology constraint"
    )
    fix = (
        f"{USE_BACKEND}; "
        f"or see whether scheduler.defaultProfileName is {backend.SCHEDULER}: {WHERE}"
    )
    field.warn("grove/scheduler-default", text, fix)


def _check_queue(root: Field, cliques: list[Field]) -> None:
    """Note a missing queue of the backend, and queues that differ; set and cliques may name one."""
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
        fix = f"label the set with {backend.QUEUE}: Grove after v0.1.0-alpha.12 refuses it without"
        labels.warn("grove/queue", text, fix)
    elif len(queues) > 1:
        where = root / "spec" / "template" / "cliques"
        listed = " ".join(sorted(queues))
        text = f"conflicting {backend.TITLE} queues on {name} PodClique templates: [{listed}]"
        where.error("grove/queue", text, "name one queue")


def queue_of(root: Field) -> str:
    """The queue of the backend that all pods of a set are in; empty: none is named, or several."""
    own = _queue(root / "metadata")
    if own:
        return own
    named = set()
    for clique in (root / "spec" / "template" / "cliques").items():
        named.add(_queue(clique))
    named.discard("")
    return named.pop() if len(named) == 1 else ""


def _queue(metadata: Field) -> str:
    """The queue in a label, else in an annotation; empty without either."""
    for place in ("labels", "annotations"):
        queue = (metadata / place / backend.QUEUE).text()
        if queue:
            return queue
    return ""
