"""Why a queue admits nothing, even with free room.

It is stopped, names missing objects, or its cohorts are in a cycle; the condition Active says so
once Kueue has set it. Rules and messages: Kueue 0.19 (pkg/cache/scheduler: clusterqueue.go;
pkg/cache/hierarchy: cycle.go).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.features import condition
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.api import ADMISSION_CHECK, COHORT
from toposcope.integrations.kueue.quota import cohort_of, parents_of
from toposcope.text import Command, shell

_STOPPED: Final = frozenset({"Hold", "HoldAndDrain"})
_RESUMED: Final = '{"spec": {"stopPolicy": "None"}}'
"""The merge patch that resumes a queue."""


@dataclass(frozen=True, slots=True)
class Inactive:
    """Why a queue admits nothing, and what to do."""

    rule: str
    text: str
    fix: str


def stop_policy(queue: Field) -> str:
    """The policy that stops a LocalQueue or ClusterQueue: Hold or HoldAndDrain; empty if none."""
    policy = (queue / "spec" / "stopPolicy").text() or ""
    return policy if policy in _STOPPED else ""


def stopped(queue: Field, kind: str) -> Inactive | None:
    """Whether the spec of a LocalQueue or ClusterQueue stops it."""
    policy = stop_policy(queue)
    if not policy:
        return None
    return Inactive(
        rule="kueue/queue-stopped",
        text=f"{kind} {name_of(queue)} is stopped (spec.stopPolicy: {policy})",
        fix=f"to start it, set spec.stopPolicy to None: {resume_command(queue, kind)}",
    )


def resume_command(queue: Field, kind: str) -> Command:
    """The command that resumes a stopped LocalQueue or ClusterQueue."""
    name = name_of(queue)
    namespace = (queue / "metadata" / "namespace").text()
    if namespace:
        template = "kubectl patch {} {} -n {} --type merge -p {}"
        return shell(template, kind.lower(), name, namespace, _RESUMED)
    return shell("kubectl patch {} {} --type merge -p {}", kind.lower(), name, _RESUMED)


def in_cycle(queue: Field, cluster: ClusterFacts) -> Inactive | None:
    """Whether the cohorts of a ClusterQueue are in a cycle."""
    parents = parents_of(cluster)
    path: list[str] = []
    cohort = cohort_of(queue) or ""
    while cohort and cohort not in path:
        path.append(cohort)
        cohort = parents.get(cohort, "")
    if not cohort:
        return None
    cycle = [*path[path.index(cohort) :], cohort]
    return Inactive(
        rule="kueue/cohort-cycle",
        text=(
            f"ClusterQueue {name_of(queue)} is inactive: its cohorts are in a cycle: "
            f"{' > '.join(cycle)}"
        ),
        fix=f"change spec.parentName of one of them: kubectl get {COHORT.name}",
    )


def of_checks(queue: Field, cluster: ClusterFacts) -> Inactive | None:
    """Whether an admission check of a ClusterQueue is missing or not active."""
    all_checks = cluster.objects.get(ADMISSION_CHECK.key)
    if all_checks is None:
        return None
    checks = {name_of(Field(document)): document for document in all_checks}
    for name in checks_of(queue):
        check = checks.get(name)
        if check is None:
            return Inactive(
                rule="kueue/admission-check",
                text=(
                    f"ClusterQueue {name_of(queue)} is inactive: "
                    f"references missing AdmissionCheck(s): {name}"
                ),
                fix=f"create it, or remove it from the ClusterQueue: kubectl get {_CHECKS}",
            )
        active = condition(check, "Active")
        if active is not None and active.status != "True":
            return Inactive(
                rule="kueue/admission-check",
                text=(
                    f"ClusterQueue {name_of(queue)} is inactive: "
                    f"references inactive AdmissionCheck(s): {name}: {active.message}"
                ),
                fix=shell("kubectl describe {} {}", _CHECKS, name),
            )
    return None


_CHECKS: Final = ADMISSION_CHECK.name


def checks_of(queue: Field) -> Iterator[str]:
    """The admission checks of a ClusterQueue, without repeats."""
    spec = queue / "spec"
    names: dict[str, None] = {}
    for check in (spec / "admissionChecks").items():
        names[check.text() or ""] = None
    strategy = spec / "admissionChecksStrategy" / "admissionChecks"
    for check in strategy.items():
        names[(check / "name").text() or ""] = None
    for name in names:
        if name:
            yield name


def reported(queue: Field, kind: str) -> Inactive | None:
    """Whether the status of a LocalQueue or ClusterQueue says that it is not active."""
    document = queue.value
    active = condition(document, "Active") if isinstance(document, Mapping) else None
    if active is None or active.status != "False":
        return None
    name = name_of(queue)
    reason = f" ({active.reason})" if active.reason else ""
    return Inactive(
        rule="kueue/queue-inactive",
        text=f"{kind} {name} is inactive{reason}: {active.message}",
        fix=shell("kubectl describe {} {}", kind.lower(), name),
    )
