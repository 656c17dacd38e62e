"""Which scheduler gets the pods of a PodCliqueSet, and whether it keeps them together.

A clique that names no scheduler gets that of the default profile in the configuration of Grove's
operator: default-scheduler, unless `scheduler.defaultProfileName` says otherwise; Grove's charts
through v0.1.0-alpha.12 do not set it. KAI is the only backend that is topology-aware: Grove refuses
constraints with volcano and lpx-scheduler, and accepts them with default-scheduler, which ignores
them. Rules and messages: Grove's webhook, main of 2026-08-19; it has profiles since v0.1.0-alpha.8,
and wants a queue of KAI's since after v0.1.0-alpha.12.
"""

from typing import Any, Final

from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.kai.api import KAI_SCHEDULER, QUEUE

KUBE_SCHEDULER: Final = "default-scheduler"
_REFUSING: Final = ("volcano", "lpx-scheduler")
"""Backends that refuse constraints, and that the charts do not enable (v0.1.0-alpha.10 did)."""
_CHARTS: Final = SchedulerProfiles((KUBE_SCHEDULER, KAI_SCHEDULER), KUBE_SCHEDULER)
WHERE: Final = "kubectl get configmap -A -l app.kubernetes.io/name=grove-operator -o yaml"
"""Shows the configuration of Grove's operator."""
USE_KAI: Final = f"write schedulerName: {KAI_SCHEDULER} in the podSpec of every clique, and label the set with {QUEUE}"


def profiles_of(configuration: Any) -> SchedulerProfiles:
    """What an OperatorConfiguration, which may be malformed, says of schedulers.

    With Grove's defaults.
    """
    root = Field(configuration)
    scheduler = root / "scheduler"
    names = [
        name for profile in (scheduler / "profiles").items() if (name := (profile / "name").text())
    ]
    return SchedulerProfiles(
        tuple(dict.fromkeys((*names, KUBE_SCHEDULER))),
        (scheduler / "defaultProfileName").text() or KUBE_SCHEDULER,
        (root / "topologyAwareScheduling" / "enabled").value is True,
    )


def check_schedulers(
    root: Field, profiles: SchedulerProfiles | None, *, constrained: bool, submitted: bool
) -> str:
    """The scheduler of all pods, as far as it is known.

    Empty where Grove's default decides, and that is not known. `profiles` are those of Grove's
    operator; None: not known. `submitted`: it is new, or changes.
    """
    cliques = list((root / "spec" / "template" / "cliques").items())
    fields = [clique / "spec" / "podSpec" / "schedulerName" for clique in cliques]
    default = (profiles or _CHARTS).default
    names = [field.text() or default for field in fields]
    if not names:
        return ""
    name, field = names[0], fields[0]
    other = next((place for place, other in zip(fields, names, strict=True) if other != name), None)
    if other is not None:
        empty = (
            "" if all(map(Field.text, fields)) else f"; where it is not set, Grove takes {default}"
        )
        fix = f"write schedulerName: {KAI_SCHEDULER} in the podSpec of every clique{empty}"
        other.error(
            "grove/one-scheduler", "the schedulerName for all pods have to be the same", fix
        )
    elif name not in (profiles or _CHARTS).enabled:
        _check_disabled(
            field, name, certain=constrained or profiles is not None or name not in _REFUSING
        )
    elif name in _REFUSING and constrained:
        text = f"{name} scheduler backend does not support topologyConstraint"
        field.error("grove/scheduler-enabled", text, USE_KAI)
    elif name == KUBE_SCHEDULER and constrained:
        if not field.text() and profiles is None:
            _warn_of_default(field)
            return ""
        text = f"{KUBE_SCHEDULER} keeps no topology constraint: Grove accepts it, and the pods land anywhere"
        field.warn("grove/scheduler-name", text, USE_KAI)
    if name == KAI_SCHEDULER and submitted:
        _check_queue(root, cliques)
    return name


def _check_disabled(field: Field, name: str, *, certain: bool) -> None:
    if certain:
        text = "schedulerName must be an enabled scheduler backend; this scheduler is not enabled in OperatorConfiguration"
        field.error(
            "grove/scheduler-enabled",
            text,
            f"write {KAI_SCHEDULER}, or enable a profile {name} in Grove's chart",
        )
    else:
        text = f"Grove accepts this only where its configuration has a profile {name}; its charts have none"
        field.warn("grove/scheduler-enabled", text, f"look at scheduler.profiles: {WHERE}")


def _warn_of_default(field: Field) -> None:
    text = (
        f"without it, Grove's default profile gets the pods: {KUBE_SCHEDULER} in its charts, which keeps no topology "
        "constraint"
    )
    fix = f"{USE_KAI}; or see whether scheduler.defaultProfileName is {KAI_SCHEDULER}: {WHERE}"
    field.warn("grove/scheduler-default", text, fix)


def _check_queue(root: Field, cliques: list[Field]) -> None:
    """KAI's queue stands on the set or on its cliques, in a label or in an annotation."""
    own = _queue(root / "metadata")
    queues = {queue for clique in cliques if (queue := _queue(clique))}
    place, name = root / "metadata" / "labels", f"PodCliqueSet {namespace_of(root)}/{name_of(root)}"
    if not own and not queues:
        text = f"no KAI queue is configured on {name} or its PodClique templates"
        fix = f"label the set with {QUEUE}: Grove after v0.1.0-alpha.12 refuses it without"
        place.warn("grove/queue", text, fix)
    elif own and queues - {own}:
        clique = next(clique for clique in cliques if _queue(clique) not in ("", own))
        other, clique_name = _queue(clique), (clique / "name").text() or ""
        text = f'KAI queue on {name} is "{own}" but PodClique template "{clique_name}" resolves to "{other}"'
        clique.error("grove/queue", text, "name one queue")
    elif len(queues) > 1:
        text = f"conflicting KAI queues on {name} PodClique templates: [{' '.join(sorted(queues))}]"
        (root / "spec" / "template" / "cliques").error("grove/queue", text, "name one queue")


def _queue(metadata: Field) -> str:
    return next(
        filter(None, ((metadata / place / QUEUE).text() for place in ("labels", "annotations"))), ""
    )
