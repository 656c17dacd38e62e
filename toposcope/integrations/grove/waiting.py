"""Grove's messages, and whether it keeps the pods of PodGangs together.

This requires topology-aware scheduling, constraints on PodGangs and a Topology. Reasons of the
condition `TopologyLevelsUnavailable`: Grove 0.1.0-alpha.9 and later. Grove compares only names and
reads no nodes, so its condition is quoted, not trusted, on levels.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from toposcope.api.conditions import Condition
from toposcope.integrations.framework import features
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.document import Field, Finding, kind_of
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.integrations.framework.waiting import CopyName, Waiting
from toposcope.integrations.grove import backend
from toposcope.integrations.grove.api import (
    BINDINGS,
    CLIQUE,
    CLIQUE_GROUP,
    CLIQUE_OF,
    GANG,
    LEVELS_UNAVAILABLE,
    OLDER_TOPOLOGIES,
    POD_CLIQUE_SETS,
    SCALED_GROUP,
    SCALING_GROUP,
)
from toposcope.integrations.grove.schedulers import USE_BACKEND, WHERE
from toposcope.kube.discovery import Kind
from toposcope.text import Command, bounded, shell

_GATES: Final = {
    "grove.io/podgang-pending-creation": (
        "Grove's operator removes it once the pod's PodGang exists and names the pod "
        "(for replicas above minAvailable: once the base PodGang is scheduled); "
        "until then look at the operator, not at the scheduler"
    )
}
_GANG_STEPS: Final = frozenset({"Initialized", "Scheduled"})
"""Conditions of a PodGang: it names all of its pods; all of them have nodes."""
_MIGRATION: Final = "PodGangMigrationInProgress"
_DRIFT: Final = "SchedulerTopologyDrift"
_DISABLED: Final = "TopologyAwareSchedulingDisabled"
_MISSING: Final = frozenset(
    {"TopologyNameMissing", "ClusterTopologyNotFound", "ClusterTopologyLevelsUnavailable"}
)
_TOPOLOGY_NAME: Final = "grove.io/topology-name"
_RECREATE: Final = (
    "the scheduler of an existing PodCliqueSet cannot change: delete it and create it again"
)
_SOON: Final = (
    "Grove omits it while the topology or the level is missing, and adds it within seconds once "
    "both exist, as they do now: check that its operator runs"
)
_LATE: Final = (
    "Grove omits it while the topology or the level is missing, and before v0.1.0-alpha.9 adds "
    "it only when the PodCliqueSet changes or its operator starts: restart the operator"
)
_STAY: Final = "running pods stay on their nodes"
_SET_COPY: Final = "grove.io/podcliqueset-replica-index"
_SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
_SCALING_GROUP_COPY: Final = "grove.io/podcliquescalinggroup-replica-index"
"""Labels of its pods. Grove 0.1.0-alpha.9."""
_MOST_DIGITS: Final = 9
_SYSTEM: Final = "Grove"
_OPERATOR: Final = shell("kubectl get pods -A -l app.kubernetes.io/name=grove-operator")


def _check(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """What Grove reports on the PodCliqueSet and what it created from it."""
    if not workload.asks_for_levels:
        return
    for ref, document in workload.members(POD_CLIQUE_SETS):
        reported = features.condition(document, LEVELS_UNAVAILABLE)
        yield _check_condition(ref, reported)
        yield from _check_scheduler(workload)
        if reported is None or reported.reason != _DISABLED:
            yield from _check_gangs(workload)


def _check_condition(ref: features.Ref, reported: Condition | None) -> features.CheckStep:
    describe = shell("kubectl describe pcs {} -n {}", ref.name, ref.namespace)
    if reported is None:
        return features.unknown(
            f"Grove has not reported on the topology constraints of {ref.handle}: "
            f"it has no condition {LEVELS_UNAVAILABLE}",
            "either its operator has not reconciled it yet, "
            "or it is older than 0.1.0-alpha.9 and topology-aware "
            "scheduling is disabled",
            commands=(describe,),
        )
    if reported.reason == _DISABLED:
        return features.failed(
            f"Grove's topology-aware scheduling is disabled ({_DISABLED}): {reported.message}",
            "its pods are placed without the constraint; "
            "enable it in the configuration of Grove's operator "
            "(Helm value config.topologyAwareScheduling.enabled: true), "
            "which then adds it to its PodGangs",
            _STAY,
            commands=(describe, shell("helm list -A --filter grove")),
        )
    if reported.reason in _MISSING:
        detail = "the cluster has changed since; Grove may not have reconciled yet"
        return features.unknown(f"Grove reports {reported}", detail, commands=(describe,))
    return features.passed("Grove's topology-aware scheduling is enabled")


def _check_gangs(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """Check for PodGangs without the constraint, which lack it while topology or level are missing.

    They get it once both exist. Since v0.1.0-alpha.9 Grove reconciles a set whenever its binding
    changes, within seconds; earlier versions only when the set itself changes or the operator
    starts.
    """
    when_added = _SOON
    if _reads_older_topology(workload):
        when_added = _LATE
    for ref, document in workload.members(GANG):
        annotations = Field(document) / "metadata" / "annotations"
        named = (annotations / _TOPOLOGY_NAME).text()
        if named or _packs(document):
            continue
        text = f"{ref.handle} lacks the topology constraint, so its pods are placed anywhere"
        look = shell("kubectl get {} {} -n {} -o yaml", GANG.name, ref.name, ref.namespace)
        yield features.failed(text, when_added, _STAY, commands=(look, _OPERATOR))


def _reads_older_topology(workload: features.WorkloadObjects) -> bool:
    for demand in workload.workloads:
        resource = workload.resource(demand)
        if resource and kind_of(resource.document) == OLDER_TOPOLOGIES.key:
            return True
    return False


def _check_scheduler(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """Check that the pods' scheduler is the one that keeps them together."""
    others = sorted(workload.schedulers - {backend.SCHEDULER})
    if not others:
        return
    names = [name or DEFAULT_SCHEDULER for name in others]
    who = " and ".join(names)
    text = f"its pods go to {who}, which ignores Grove's topology constraints"
    look = shell(WHERE)
    yield features.failed(text, USE_BACKEND, _RECREATE, commands=(look,))


def _packs(value: Any) -> bool:
    """Whether there is a pack constraint anywhere in the document."""
    if isinstance(value, dict):
        if value.get("packConstraint"):
            return True
        return any(_packs(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_packs(item) for item in value)
    return False


def _check_topologies(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """Whether the scheduler has a Topology for each binding that the workload uses."""
    for demand in workload.workloads:
        if demand.system not in ("Dynamo", "Grove"):
            continue
        binding = workload.resource(demand)
        if binding is None:
            continue
        named = topology_named_by(binding.document)
        describe = shell("kubectl describe clustertopologybinding {}", binding.name)
        creator = _creator(binding, named)
        yield _check_topology(workload, named or binding.name, creator, (describe,))


def _check_topology(
    workload: features.WorkloadObjects, name: str, creator: str, commands: tuple[Command, ...]
) -> features.CheckStep:
    """Check that the scheduler has the Topology of this name.

    `creator` is a sentence on who should create it.
    """
    title = backend.TITLE
    if workload.published(name, backend.TOPOLOGIES):
        text = f"{title} has the Topology {name}"
        return features.passed(text)

    why = workload.store.why_unknown(backend.TOPOLOGIES)
    if why:
        text = f"cannot check whether {title} has the Topology {name}: {why}"
        return features.unknown(text)

    text = f"{title} has no Topology {name}, so it cannot keep Grove's pods together"
    get = shell("kubectl get {}", backend.TOPOLOGIES.name)
    return features.failed(text, creator, commands=(get, *commands))


def _creator(binding: features.ReadResource, named: str) -> str:
    if not named:
        return (
            "Grove creates it from the binding while its operator runs "
            f"and {backend.TITLE} v0.12 or later is installed"
        )
    who = "its author must create it"
    if named == binding.name:
        who = f"Toposcope creates it, unless spec.publish.{backend.TOPOLOGIES.option} is Never"
    return (
        f"{binding.handle} names it in spec.schedulerTopologyBindings, "
        f"so Grove does not create it: {who}"
    )


def topology_named_by(binding: features.Object) -> str:
    """The Topology that a binding names, so that Grove creates none; empty if it names none."""
    for entry in (Field(binding) / "spec" / "schedulerTopologyBindings").items():
        if (entry / "schedulerName").text() == backend.SCHEDULER:
            return (entry / "topologyReference").text() or ""
    return ""


def _check_drift(binding: features.ReadResource, describe: Command) -> features.CheckStep | None:
    """Grove's own comparison of a binding with the backends' topologies; None without drift.

    `describe` is the command that shows the binding.
    """
    reported = features.condition(binding.document, _DRIFT)
    if reported is None or reported.status == "False":
        return None
    details = _drift_details(binding)
    message = f"Grove reports on {binding.handle}: {reported}"
    if reported.status == "True":
        list_topologies = shell("kubectl get {}", backend.TOPOLOGIES.name)
        return features.failed(message, *details, commands=(describe, list_topologies))
    return features.unknown(message, *details, commands=(describe,))


def _drift_details(binding: features.ReadResource) -> list[str]:
    """Grove's report on each backend's topology that is not in sync."""
    statuses = Field(binding.document) / "status" / "schedulerTopologyStatuses"
    details = []
    for status in statuses.items():
        in_sync = (status / "inSync").flag(default=True)
        message = (status / "message").text()
        if message and not in_sync:
            scheduler = (status / "schedulerName").text()
            details.append(f"{scheduler}: {message}")
    return details


def _messages(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """Grove's report on the levels of its PodCliqueSets, unless they are fine."""
    for ref, document in workload.members(POD_CLIQUE_SETS):
        reported = features.condition(document, LEVELS_UNAVAILABLE)
        if reported is None or reported.status == "False":
            continue
        yield features.SchedulerMessage(
            about=ref.handle,
            text=str(reported),
        )


def _problems(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """The operator's errors, and what keeps it from creating PodGangs."""
    for kind in (POD_CLIQUE_SETS, SCALING_GROUP, CLIQUE, GANG):
        for ref, document in workload.members(kind):
            yield from _last_errors(ref, document)
    for ref, document in workload.members(POD_CLIQUE_SETS):
        reported = features.condition(document, _MIGRATION)
        if reported and reported.status == "True":
            yield features.SchedulerMessage(ref.handle, str(reported), ref=ref)


def _refusals(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """Why its PodGangs are not created, filled or scheduled."""
    for ref, document in workload.members(GANG):
        for reported in features.conditions(document):
            is_held = reported.type in _GANG_STEPS and reported.status == "False"
            if is_held and reported.message:
                yield features.SchedulerMessage(ref.handle, str(reported), ref=ref)


def _last_errors(
    ref: features.Ref, document: features.Object
) -> Iterator[features.SchedulerMessage]:
    """The errors of an object's last reconciliation."""
    for error in (Field(document) / "status" / "lastErrors").items():
        code = (error / "code").text() or "error"
        description = (error / "description").text() or "no description"
        text = f"{code}: {bounded(description)}"
        yield features.SchedulerMessage(ref.handle, text, ref=ref)


def _copy_namer(group: Group) -> CopyName:
    """The function that names the copies of a set, scaling group or clique."""
    if group.kind == SCALED_GROUP:
        return _scaling_group_namer(group.own_name)
    if group.kind == CLIQUE_GROUP:
        return _clique_namer(group.own_name)
    return _set_namer(group)


def _scaling_group_namer(name: str) -> CopyName:
    def copy_name(labels: Mapping[str, str]) -> str | None:
        label = labels.get(_SCALING_GROUP, "")
        if not _is_grove_name(label, name):
            return None
        copy = labels.get(_SCALING_GROUP_COPY, "?")
        return f"{label}-{copy}"

    return copy_name


def _clique_namer(name: str) -> CopyName:
    def copy_name(labels: Mapping[str, str]) -> str | None:
        label = labels.get(CLIQUE_OF, "")
        if not _is_grove_name(label, name):
            return None
        return label

    return copy_name


def _set_namer(group: Group) -> CopyName:
    gangs = []
    for part in group.groups:
        if part.kind == SCALED_GROUP:
            gangs.append((part.own_name, part.copies))

    def copy_name(labels: Mapping[str, str]) -> str | None:
        if is_apart(labels, gangs):
            return None
        return labels.get(_SET_COPY)

    return copy_name


def is_apart(labels: Mapping[str, str], gangs: Iterable[tuple[str, int]]) -> bool:
    """Whether the pod is in a replica of a scaling group that is a separate gang.

    `gangs` has, by scaling group, how many replicas are not.
    """
    index = labels.get(_SCALING_GROUP_COPY, "")
    if not index.isdecimal() or len(index) > _MOST_DIGITS:
        return False

    scaling_group = labels.get(_SCALING_GROUP, "")
    for name, count in gangs:
        if _is_grove_name(scaling_group, name) and int(index) >= count:
            return True
    return False


def _is_grove_name(text: str, name: str) -> bool:
    """Whether it is Grove's name for a copy, with set and index before the name: `llm-0-decode`."""
    return re.fullmatch(rf".*-\d+-{re.escape(name)}", text) is not None


class _Grove(Waiting):
    subjects = (POD_CLIQUE_SETS, SCALING_GROUP, CLIQUE, GANG)
    readers = (_SYSTEM,)
    gates = _GATES
    topology_kinds = (BINDINGS, OLDER_TOPOLOGIES)
    made_for_pods = (POD_CLIQUE_SETS,)
    topology_rules = (
        "grove/topology-exists",
        "grove/topology-name",
        "grove/one-topology",
    )
    level_rules = (
        "grove/domain-exists",
        "grove/domain-pattern",
        "grove/pack",
        "grove/pack-domain",
    )
    hierarchy_rules = ("grove/hierarchy",)
    feature_rules = (
        "grove/scheduler-name",
        backend.TOPOLOGY_RULE,
    )

    def check(self, workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
        yield from _check(workload)
        yield from _check_topologies(workload)

    def settles(self, finding: Finding, workload: features.WorkloadObjects) -> bool:
        # the pods say who it is
        return finding.rule == "grove/scheduler-default" and bool(workload.schedulers)

    def check_drift(
        self, resource: features.ReadResource, describe: Command
    ) -> features.CheckStep | None:
        return _check_drift(resource, describe)

    def made_from(self, resource: features.ReadResource) -> tuple[str, Kind] | None:
        if kind_of(resource.document) != BINDINGS.key:
            return None
        return topology_named_by(resource.document) or resource.name, backend.TOPOLOGIES

    def copy_namer(self, system: str, group: Group) -> CopyName | None:
        return _copy_namer(group) if system == _SYSTEM else None

    def problems(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _problems(workload)

    def refusals(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _refusals(workload)

    def messages(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _messages(workload)


WAITING: Final = _Grove()
