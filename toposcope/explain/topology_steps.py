"""The first checks: the topology exists, has the levels that are named, and in a valid order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import HIERARCHY_CONSISTENT, LEVELS_AVAILABLE, unavailable_levels
from toposcope.api.levels import Level
from toposcope.explain.context import Context, rules
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.document import Field, Finding, kind_of
from toposcope.integrations.framework.features import CheckStep, condition, failed, passed, unknown
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.framework.waiting import levels_command
from toposcope.integrations.registry import waiting
from toposcope.kube.discovery import Kind
from toposcope.text import Command, shell

_TOPOLOGY_RULES: Final = rules("topology_rules")
_TOPOLOGY_WARNINGS: Final = rules("topology_warnings")
_LEVEL_RULES: Final = rules("level_rules")
_HIERARCHY_RULES: Final = rules("hierarchy_rules")
FEATURE_RULES: Final = rules("feature_rules")
_OWN_STEP: Final = _TOPOLOGY_RULES | _LEVEL_RULES | _HIERARCHY_RULES | FEATURE_RULES
"""Rules that a step of their own reports."""


def objection(finding: Finding) -> str:
    """A finding in one line."""
    if not finding.field:
        return finding.message
    return f"{finding.field}: {finding.message}"


def is_settled(context: Context, finding: Finding) -> bool:
    """Whether the cluster answers what a finding about the document leaves open."""
    for system in waiting():
        if system.settles(finding, context):
            return True
    return False


def blocked_by_topology(context: Context) -> str:
    """Why levels cannot be checked: the topology itself is wrong. Empty: it is right."""
    if any(context.findings(_TOPOLOGY_RULES)):
        return "cannot be checked until the topology is right"
    return ""


def blocked_by_levels(context: Context) -> str:
    """Why domains cannot be checked: topology or levels are wrong. Empty: both are right."""
    blocked = blocked_by_topology(context)
    if blocked:
        return blocked
    if wrong_levels(context):
        return "cannot be checked until the levels are right"
    return ""


def check_topology(context: Context) -> CheckStep:
    """The topology exists, as the kind that the workload's system reads."""
    for finding in context.findings(_TOPOLOGY_RULES):
        commands = (*_list_topologies(context), shell("kubectl get gtopo"))
        return failed(objection(finding), finding.fix, commands=commands)

    for finding in context.findings(_TOPOLOGY_WARNINGS, severity="warning"):
        return failed(objection(finding), finding.fix)

    existing = []
    open_questions = []
    for workload in context.workloads:
        name = workload.topology
        accepted = context.topology_kinds(workload)
        if name is None:
            continue

        if not accepted:  # its scheduler reads a tree of objects, none of which has that name
            existing.append(f"{workload.system} has levels of topology {name}")
            continue

        resource = context.resource(workload)
        if resource:
            existing.append(f"{resource.handle} exists")
        elif why := context.store.why_unknown(*accepted):
            question = f"cannot tell whether {workload.system} has a {accepted[0].kind} {name}"
            open_questions.append(f"{question}: {why}")
        else:
            return _unpublished(context, workload, accepted[0])

    if open_questions:
        return unknown(open_questions[0])
    all_existing = "; ".join(dict.fromkeys(existing))
    return passed(all_existing) if all_existing else no_topology(context)


def no_topology(context: Context) -> CheckStep:
    """The step where no topology is known that it asks for."""
    why = why_unread(context)
    return unknown(why) if why else passed("it asks for no topology")


def _list_topologies(context: Context) -> list[Command]:
    commands = []
    for workload in context.workloads:
        kinds = context.topology_kinds(workload)
        if kinds:
            commands.append(shell("kubectl get {}", kinds[0].name))
    return commands


def _unpublished(context: Context, workload: Workload, kind: PublishedKind) -> CheckStep:
    """The step where no topology of this name is of the kind that the scheduler reads."""
    name = workload.topology or ""
    message = f"there is no {kind.kind} {name} for {workload.system} to read"
    list_kind = shell("kubectl get {}", kind.name)
    scope = context.scope(workload)
    if scope and scope.topology:
        return failed(
            message,
            _why_unpublished(scope.topology, kind),
            commands=(list_kind, shell("kubectl describe gtopo {}", name)),
        )

    namesakes = []
    for resource in context.snapshot.published:
        if resource.name == name:
            namesakes.append(resource.handle)

    existing = ", ".join(namesakes)
    return failed(
        message,
        f"{existing} exists, but {workload.system} does not read it",
        commands=(list_kind,),
    )


def _why_unpublished(topology: Topology, kind: PublishedKind) -> str:
    """Why the controller has published no resource of this kind."""
    published = topology.status.get("published")
    reported = _reported(published, kind)
    if reported:
        return reported

    name = topology.name
    if topology.publish.get(kind.option) == "Never":
        return f"ClusterTopology {name} sets spec.publish.{kind.option}: Never"
    return f"ClusterTopology {name} exists, but is not published as {kind.kind}"


def _reported(entries: Any, kind: Kind) -> str:
    """What the ClusterTopology's status says about its resource of this kind; empty: nothing."""
    for entry in Field(entries).items():
        message = (entry / "message").text()
        if kind_of(entry.value) == kind.key and message:
            return f"the ClusterTopology's status says: {message}"
    return ""


@dataclass(frozen=True, slots=True)
class LostLevel:
    """A level that a ClusterTopology reports as lost."""

    topology: str
    domain: str
    message: str
    """Its condition's."""


def lost_levels(context: Context) -> list[LostLevel]:
    """The lost levels of the workload's topologies, or of all topologies where it names none.

    A domain that several topologies have lost is listed once, as the last of them reports it.
    """
    lost: dict[str, LostLevel] = {}
    for topology in context.snapshot.topologies:
        if context.topologies and topology.name not in context.topologies:
            continue

        reported = condition({"status": topology.status}, LEVELS_AVAILABLE)
        if reported is None:
            continue

        message = f"ClusterTopology {topology.name}: {reported.message}"
        for domain in unavailable_levels(topology.status):
            lost[domain] = LostLevel(topology.name, domain, message)
    return list(lost.values())


def names_level(context: Context, finding: Finding, domain: str) -> bool:
    """Whether a field names this level: by its domain, or by a label key that usually has it."""
    keys = context.snapshot.catalogue.keys.get(domain, ())
    return finding.value == domain or finding.value in keys


def level_complaints(context: Context) -> list[Finding]:
    """The objections of the systems to the levels that are named."""
    return list(context.findings(_LEVEL_RULES))


def wrong_levels(context: Context) -> list[Finding]:
    """The objections of `level_complaints` without those to levels that the topology has lost."""
    lost = lost_levels(context)
    wrong = []
    for complaint in level_complaints(context):
        if not _is_of_lost(context, complaint, lost):
            wrong.append(complaint)
    return wrong


def _is_of_lost(context: Context, complaint: Finding, lost: Sequence[LostLevel]) -> bool:
    for level in lost:
        if names_level(context, complaint, level.domain):
            return True
    return False


def check_levels(context: Context) -> CheckStep:
    """Every level that is named belongs to the topology; near misses are suggested."""
    if why := blocked_by_topology(context):
        return unknown(why)

    findings = wrong_levels(context)
    if findings:
        commands = (levels_command(*context.topologies[:1]),)
        return failed(*_with_fixes(findings), commands=commands)

    if context.asked_levels:
        names = domain_names(context.asked_levels)
        return passed(f"the topology has what it asks for: {names}")

    if level_complaints(context):
        return passed("the topology had the level that it asks for")

    if why := why_unread(context):
        return unknown(why)
    return passed("it asks for no level")


def why_unread(context: Context) -> str:
    """Why it is not known which topology and levels it asks for; empty: it is known."""
    if context.asked_levels:
        return ""
    for workload in context.workloads:
        reasons = (workload.unknown, *workload.notes)
        if not workload.is_placeable and any(reasons):
            return next(filter(None, reasons))
    return ""


def domain_names(levels: Iterable[Level]) -> str:
    """The domains of some levels, each once."""
    domains = [level.domain for level in levels]
    return ", ".join(dict.fromkeys(domains))


def _with_fixes(findings: Sequence[Finding]) -> list[str]:
    """The first objection, its fix on a line of its own, and all others with their fixes."""
    first, *rest = findings
    lines = [objection(first), first.fix]
    for finding in rest:
        message = objection(finding)
        lines.append(f"{message}; {finding.fix}")
    return lines


def check_hierarchy(context: Context) -> CheckStep:
    """No part asks for a broader level than the whole; levels that do not nest are mentioned."""
    if why := blocked_by_levels(context):
        return unknown(why)

    for finding in context.findings(_HIERARCHY_RULES):
        orders = []
        for name in context.topologies:
            order = " > ".join(_order(context, name))
            orders.append(f"the levels of {name}: {order}")
        commands = (levels_command(*context.topologies[:1]),)
        return failed(objection(finding), finding.fix, *orders, commands=commands)

    tangles = []
    for topology in context.snapshot.topologies:
        if topology.name not in context.topologies:
            continue
        reported = condition({"status": topology.status}, HIERARCHY_CONSISTENT)
        if reported and reported.status == "False":
            tangles.append(f"ClusterTopology {topology.name}: {reported.message}")

    return passed("no group asks for a broader level than its workload", *tangles)


def _order(context: Context, name: str) -> list[str]:
    for workload in context.workloads:
        if workload.topology == name:
            return [level.domain for level in context.levels(workload)]
    return []


def check_rules(context: Context) -> CheckStep:
    """No system would reject the object for another reason, or read it differently than meant."""
    errors = []
    warnings = []
    for finding in context.all_findings:
        if finding.rule in _OWN_STEP or is_settled(context, finding):
            continue
        if finding.severity == "error":
            errors.append(finding)
        elif finding.severity == "warning":
            warnings.append(objection(finding))

    if errors:
        command = context.explained.command("kubectl get {} -o yaml | toposcope check -f -")
        return failed(*_with_fixes(errors), *warnings, commands=(command,))

    return passed("no other rule is broken", *warnings)
