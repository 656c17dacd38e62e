"""Say on one screen whether all is well: controller, nodes, levels, published resources,
and what to do next.

Exit code 1 if something needs attention.
"""  # noqa: D205 - a paragraph of --help

import argparse
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api import conditions
from toposcope.cli import command, errors
from toposcope.cli.hints import hints_field, hints_of
from toposcope.cli.leader import Leader, leader_of
from toposcope.cli.output import NO_TOPOLOGY, counted, gpus_of, level_notes, names_of, show_document
from toposcope.cli.terminal import Screen, UnfoldedLine
from toposcope.controller.options import LEASE
from toposcope.integrations.framework import features
from toposcope.integrations.framework.document import Field
from toposcope.kube.errors import ApiError
from toposcope.snapshot import filters
from toposcope.snapshot.filters import Mark, marks
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope, select_scope
from toposcope.text import Command, first_few, shell

_WIDTH_CHARACTERS: Final = 80
_MOST_FINDINGS: Final = 5
_MOST_LINES: Final = 2
"""Of a row or a finding, where its clauses allow it."""
_STATE_OF_NODES: Final = {
    conditions.LEVELS_COVERED: "left-out",
    conditions.AGENTS_REPORTING: "no-agent",
    conditions.FABRIC_HEALTHY: "degraded",
    conditions.RAILS_CONSISTENT: "miscabled",
}
"""By condition: the state of the nodes that it is about."""
_WORDS: Final[Mapping[str, str]] = {
    filters.Mark.NOT_READY: "not Ready",
    filters.Mark.DEGRADED: "degraded",
    filters.Mark.UNKNOWN: "whose hardware does not answer",
    filters.Mark.NO_AGENT: "without an agent's labels",
    filters.StateFilter.LEFT_OUT: "missing a level that others have",
}
"""What is said of nodes in a state."""
_FAULTS: Final = tuple(_WORDS)
_ABOUT_LEVELS: Final = (conditions.HIERARCHY_CONSISTENT, conditions.LEVELS_AVAILABLE)
_CONTROLLER: Final = shell("kubectl get pods -A -l app.kubernetes.io/component=controller")
_AGENTS: Final = shell("kubectl get pods -A -o wide -l app.kubernetes.io/component=agent")
_SUGGEST: Final = shell("toposcope suggest")
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"


@dataclass(frozen=True, slots=True)
class _Finding:
    """Something that is not as it should be."""

    what: str
    message: str
    next: Command

    def document(self) -> dict[str, str]:
        """Plain values."""
        return {"about": self.what, "message": self.message, "next": self.next}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope status`."""
    command.add_topology(parser)
    command.add_source_arguments(parser)
    command.add_watch(parser, is_without_pods=True)


@command.on_screen("status")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the state; 1 if something needs attention."""
    snapshot = command.load_snapshot(arguments, has_pods=False)
    scope = select_scope(snapshot, arguments.topology)
    controller = _controller(arguments)
    findings = list(_findings(snapshot, scope, controller))
    output = arguments.output
    if output in ("json", "yaml"):
        fields = document(scope, controller, findings)
        show_document(screen, output, fields)
    elif output == "name":
        screen.show(finding.what for finding in findings)
    else:
        is_wide = output == "wide"
        lines = _page(screen, scope, controller, findings, is_wide=is_wide)
        screen.show(lines)

    return errors.exit_code(is_ok=not findings)


def _controller(arguments: argparse.Namespace) -> Leader:
    """The controller, judged by its Lease. Raises KubeError."""
    if arguments.files:
        return Leader("not known from files")

    from toposcope.kube.runtime import REAL  # noqa: PLC0415 - not for files

    try:
        return leader_of(lambda: _lease(arguments), REAL.now, REAL.event().wait)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return Leader(f"not known: these credentials cannot get the Lease {LEASE}")


def _lease(arguments: argparse.Namespace) -> Mapping[str, Any] | None:
    """The controller's Lease, wherever the controller runs. Raises KubeError."""
    from toposcope.cli.catalogue import controller_namespaces  # noqa: PLC0415 - not for files
    from toposcope.kube.client import find  # noqa: PLC0415 - same

    with command.api_client(arguments) as client:
        for namespace in controller_namespaces(client):
            lease = find(client, f"{_LEASES}/{namespace}/leases/{LEASE}")
            if lease:
                return lease
    return None


def _findings(snapshot: Snapshot, scope: Scope, controller: Leader) -> Iterator[_Finding]:
    """Everything that needs attention, the worst first."""
    if scope.is_before_agents:
        yield from _in_state(scope, filters.Mark.NOT_READY)
        return

    if controller.is_lost:
        yield _Finding("controller", f"{controller.words}: the rest may be stale", _CONTROLLER)

    if scope.topology is None:
        yield _Finding("topology", NO_TOPOLOGY, _way_to_a_topology(snapshot, scope))
        for state in _FAULTS:
            yield from _in_state(scope, state)
        return

    reported = features.conditions({"status": scope.topology.status})
    if not reported:
        text = "the controller has written no status for it"
        yield _Finding("controller", text, _CONTROLLER)

    for condition in sorted(reported, key=lambda condition: condition.status != "False"):
        if _needs_attention(condition):
            yield _Finding(
                what=f"{condition.type}={condition.status}",
                message=f"{condition.reason}: {condition.message}",
                next=_next_step(condition, scope.name),
            )


def _way_to_a_topology(snapshot: Snapshot, scope: Scope) -> Command:
    """What to run where there is no ClusterTopology: nothing that has no answer."""
    from toposcope.snapshot.suggest import suggest  # noqa: PLC0415 - only this page needs it

    if suggest(snapshot).suggestions:
        return _SUGGEST
    return shell("toposcope levels") if scope.nodes else _AGENTS


def _in_state(scope: Scope, state: str) -> Iterator[_Finding]:
    """The nodes in a state that a controller would report."""
    nodes = list(scope.nodes)
    if state == filters.Mark.NO_AGENT:
        nodes += scope.without_agent
    names = names_of(filters.filter_nodes(scope, nodes, conditions=[state]))
    if names:
        text = f"{counted(len(names), 'node')} {_WORDS[state]}: {first_few(names)}"
        yield _Finding("nodes", text, shell("toposcope nodes --state {}", state))


def _needs_attention(condition: conditions.Condition) -> bool:
    """Whether to report the condition.

    Ready sums up the others, and a cluster without rails is as it should be.
    """
    if condition.type == conditions.READY or condition.reason == conditions.NO_RAILS:
        return False
    return condition.status != "True"


def _next_step(reported: conditions.Condition, topology: str) -> Command:
    """The command that shows what a condition is about."""
    condition = reported.type
    if reported.reason == conditions.AGENTS_NOT_READY:
        return _AGENTS
    if condition in _STATE_OF_NODES:
        return shell("toposcope nodes --state {}", _STATE_OF_NODES[condition])
    if condition in _ABOUT_LEVELS:
        return shell("toposcope levels {}", topology)
    return shell("kubectl describe gtopo {}", topology)


def document(scope: Scope, controller: Leader, findings: Sequence[_Finding]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/check.md describes it."""
    status = scope.topology.status if scope.topology else {}
    return {
        "topology": scope.name or None,
        **level_notes(scope),
        "healthy": not findings,
        "controller": controller.words,
        "nodes": len(scope.nodes),
        "gpus": gpus_of(scope.nodes),
        "states": _states(scope),
        "levels": [level.domain for level in scope.levels],
        "published": list(_published(status)),
        "findings": [finding.document() for finding in findings],
        **hints_field(scope),
    }


def _states(scope: Scope) -> dict[str, int]:
    """How many nodes have each mark; where there are no agents yet, that is none."""
    states: Counter[str] = Counter()
    for node in scope.nodes:
        for mark in marks(node):
            states[mark.value] += 1
    if scope.is_before_agents:
        del states[Mark.NO_AGENT.value]
    return dict(states)


def _published(status: Any) -> Iterator[dict[str, Any]]:
    published = Field(status) / "published"
    for resource in published.items():
        entry: dict[str, Any] = {}
        for name in ("apiVersion", "kind", "name"):
            field = resource / name
            entry[name] = field.text() or ""
        in_sync = resource / "inSync"
        entry["inSync"] = in_sync.flag()
        yield entry


def _page(
    screen: Screen,
    scope: Scope,
    controller: Leader,
    findings: Sequence[_Finding],
    *,
    is_wide: bool,
) -> Iterator[str]:
    name = f"ClusterTopology {scope.name}" if scope.topology else "no ClusterTopology"
    verdict = screen.paint("healthy", "green")
    if findings:
        verdict = screen.paint(counted(len(findings), "problem"), "red")
    yield f"{name}: {verdict}"
    fields = document(scope, controller, findings)
    for title, text in _rows(fields).items():
        yield from _cut(f"  {title:<12}", text)

    for line in _remarks(scope):
        yield screen.paint(line, "dim")

    shown = findings
    if not is_wide:
        shown = findings[:_MOST_FINDINGS]
    for finding in shown:
        text = f"{finding.what}: {finding.message}"
        lines = _wrapped("! ", text) if is_wide else _cut("! ", text)
        yield from lines
        yield UnfoldedLine(f"  next: {finding.next}")

    if scope.is_before_agents:
        yield UnfoldedLine(f"  next: {_SUGGEST}")

    more = len(findings) - len(shown)
    if more:
        yield f"and {more} more: toposcope status -o wide"


def _remarks(scope: Scope) -> Iterator[str]:
    """The lines about levels: where status and labels disagree, and hints."""
    for note in level_notes(scope).values():
        yield from _wrapped("note: ", note)
    for hint in hints_of(scope):
        yield from _wrapped("hint: ", hint.message)


def _rows(fields: Mapping[str, Any]) -> dict[str, str]:
    """The rows above the findings, by their titles."""
    gpus = counted(fields["gpus"], "GPU")
    nodes = f"{fields['nodes']:,} with {gpus}"
    states = []
    for state, count in fields["states"].items():
        states.append(f"{count:,} {state}")
    if states:
        nodes += f": {', '.join(states)}"

    published = []
    for resource in fields["published"]:
        group, _, _ = resource["apiVersion"].partition("/")
        in_sync = "" if resource["inSync"] else " (not in sync)"
        published.append(f"{resource['kind']}.{group}{in_sync}")

    levels = " > ".join(fields["levels"])
    return {
        "controller": fields["controller"],
        "nodes": nodes,
        "levels": levels or "none",
        "published": ", ".join(published) or "nothing",
    }


def _wrapped(first: str, text: str) -> list[str]:
    """The text in lines, all but the first of them indented below it."""
    return textwrap.wrap(
        text,
        _WIDTH_CHARACTERS,
        initial_indent=first,
        subsequent_indent=" " * len(first),
    )


def _cut(first: str, text: str) -> list[str]:
    """The text in two lines, without the clauses that have no room there.

    A cut within a clause can turn it into its opposite. So the first clause is cut only after a
    comma, as between the names of a list, and gets more lines where it has none.
    """
    lines = _wrapped(first, text)
    for separator in ("; ", ", "):
        clauses = text.split(separator)
        if len(lines) <= _MOST_LINES or len(clauses) == 1:
            continue
        text, *others = clauses
        lines = _wrapped(first, f"{text}{separator}...")
        for clause in others:
            longer = f"{text}{separator}{clause}"
            lines_of_longer = _wrapped(first, f"{longer}{separator}...")
            if len(lines_of_longer) > _MOST_LINES:
                break
            text = longer
            lines = lines_of_longer
    return lines
