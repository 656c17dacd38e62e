"""The first question: is the topology there that the workload asks for, where its scheduler looks for it."""

from typing import Any, Final

from toposcope.explain.context import Context
from toposcope.explain.kinds import Kind
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.pods import kind_of

NAME: Final = "topology"
RULES: Final = (
    "topology-exists",
    "topology-name",
    "topology-constraint",
    "one-topology",
    "no-topology",
)


def in_the_dark(context: Context) -> str:
    """Why nothing can be said about levels: the topology itself is not known. Empty where it is."""
    return "not to be told before the topology is right" if any(context.findings(*RULES)) else ""


def look(context: Context) -> Step:
    """The topology exists, in the shape that the system of the workload reads."""
    kinds = [kind for workload in context.workloads for kind in context.reads(workload)[:1]]
    for finding in context.findings(*RULES):
        return failed(
            NAME,
            f"{finding.field}: {finding.message}",
            finding.fix,
            commands=(*(f"kubectl get {kind.name}" for kind in kinds), "kubectl get gtopo"),
        )
    for finding in context.findings("no-topology", severity="warning"):
        return failed(NAME, f"{finding.field}: {finding.message}", finding.fix)
    told, open_questions = [], []
    for workload in context.workloads:
        name = workload.topology
        if name is None:
            continue
        kinds = list(context.reads(workload))
        there = context.resource(workload)
        if there:
            told.append(f"{there.handle} exists")
        elif hidden := context.store.hidden(*kinds):
            open_questions.append(f"whether {workload.system} has a {kinds[0].kind} {name} is not known: {hidden}")
        else:
            return _unpublished(context, workload, kinds[0])
    if open_questions:
        return unknown(NAME, open_questions[0])
    return passed(NAME, "; ".join(dict.fromkeys(told)) or "it asks for no topology")


def _unpublished(context: Context, workload: Workload, kind: Kind) -> Step:
    """A topology of this name is known, but not in the shape that the scheduler reads."""
    name = workload.topology or ""
    message = f"there is no {kind.kind} {name} for {workload.system} to read"
    commands = (f"kubectl get {kind.name}", f"kubectl describe gtopo {name}")
    scope = context.scope(workload)
    if scope is None or scope.topology is None:
        others = [each.handle for each in context.snapshot.published if each.name == name]
        return failed(NAME, message, f"{', '.join(others)} is there, which it does not read", commands=commands[:1])
    told = _of_this_kind((Field(scope.topology.status) / "published").value, kind)
    never = scope.topology.publish.get(_TARGETS.get(kind.key, ""))
    if never == "Never":
        told = told or f"ClusterTopology {name} says spec.publish.{_TARGETS[kind.key]}: Never"
    return failed(
        NAME, message, told or f"ClusterTopology {name} exists, but is not published as {kind.kind}", commands=commands
    )


_TARGETS: Final = {
    ("grove.io", "ClusterTopologyBinding"): "grove",
    ("kai.scheduler", "Topology"): "kai",
    ("kueue.x-k8s.io", "Topology"): "kueue",
}


def _of_this_kind(entries: Any, kind: Kind) -> str:
    """What the ClusterTopology's status says about its resource of this kind."""
    for entry in Field(entries).items():
        message = (entry / "message").text()
        if kind_of(entry.value) == kind.key and message:
            return f"the ClusterTopology's status says: {message}"
    return ""
