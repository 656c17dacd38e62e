"""Whether every node with GPUs has an agent, and what their labels claim: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from toposcope.api.conditions import AGENTS_NOT_READY, AGENTS_REPORTING, Condition, previous
from toposcope.api.label_keys import GPU_PRESENT, GPUS, NVLINK_DOMAIN
from toposcope.api.label_values import MOST_COUNT, count_of
from toposcope.hierarchy.coverage import some_names
from toposcope.hierarchy.node import Traits
from toposcope.hierarchy.table import Table
from toposcope.text import plural

_IS_IT_RUNNING: Final = "is the agent's DaemonSet running there?"
"""The question about nodes without labels, while the cause is not known."""
_PODS_NOT_CREATED: Final = "AgentPodsNotCreated"
NO_STATUS: Final[Mapping[str, Any]] = MappingProxyType({})
_ALL_REPORT: Final = Condition(
    AGENTS_REPORTING,
    "True",
    "AllAgentsReport",
    "Every node with GPUs carries the labels of an agent",
)
_SHOW_AGENTS: Final = "kubectl get pods -A -o wide -l app.kubernetes.io/component=agent"


@dataclass(frozen=True, slots=True)
class AgentReports:
    """Nodes whose agents say nothing, or nothing plausible; sorted names."""

    silent: Sequence[str] = ()
    """Nodes with GPUs that no agent has counted."""
    implausible: Sequence[str] = ()
    """Nodes whose label `gpus` is not a count."""


@dataclass(frozen=True, slots=True)
class MissingPods:
    """Why agents have no pods, as far as the DaemonSet and its Events tell."""

    refusal: str = ""
    """Why no pods can be created; empty if they can."""
    shortage: str = ""
    """On how many nodes pods are missing, and where to look; empty if on none."""

    @property
    def cause(self) -> str:
        """Why a node has no labels."""
        if self.refusal:
            return f"the agent's DaemonSet cannot create pods: {self.refusal}"
        return self.shortage or _IS_IT_RUNNING


NO_MISSING_PODS: Final = MissingPods()


@dataclass(frozen=True, slots=True, order=True)
class UnreadyAgent:
    """An agent whose pod is not Ready, while the labels of its node may still be there."""

    node: str
    reason: str
    """In the kubelet's word, as `CrashLoopBackOff`."""


@dataclass(frozen=True, slots=True)
class AgentPodsSeen:
    """What the pods of the agents show, beside what their labels do."""

    missing: MissingPods = NO_MISSING_PODS
    unready: Sequence[UnreadyAgent] | None = ()
    """By node; None: not known yet."""


NO_PODS_SEEN: Final = AgentPodsSeen()


def agent_reports(nodes: Table) -> AgentReports:
    """What all nodes of the cluster show of their agents."""
    return AgentReports(silent=_silent(nodes), implausible=_implausible(nodes))


def agents_condition(
    reports: AgentReports,
    pods: AgentPodsSeen = NO_PODS_SEEN,
    status: Mapping[str, Any] = NO_STATUS,
) -> Condition:
    """The `AgentsReporting` condition, given the stored status.

    Where pods cannot be created, or are not Ready, it is False even if all nodes have labels,
    because these may have been left behind.
    """
    texts = list(_texts(reports, pods))
    if texts:
        reason = _reason(reports, pods)
        return Condition(AGENTS_REPORTING, "False", reason, "; ".join(texts))
    if pods.unready is None:
        return _as_before(status)
    return _ALL_REPORT


def _texts(reports: AgentReports, pods: AgentPodsSeen) -> Iterator[str]:
    """What is wrong, the worst first."""
    if reports.implausible:
        yield _implausible_text(reports.implausible)
    if reports.silent:
        yield _silent_text(reports.silent, pods)
    elif pods.missing.refusal and not reports.implausible:
        yield f"labels may be old; {pods.missing.cause}"
    if pods.unready:
        yield _unready_text(pods.unready)


def _reason(reports: AgentReports, pods: AgentPodsSeen) -> str:
    """The reason of the condition where something is wrong."""
    if reports.silent and pods.missing.refusal:
        return _PODS_NOT_CREATED
    if reports.implausible:
        return "ImplausibleLabels"
    if reports.silent:
        return "NodesWithoutLabels"
    return _PODS_NOT_CREATED if pods.missing.refusal else AGENTS_NOT_READY


def _as_before(status: Mapping[str, Any]) -> Condition:
    """The condition while the pods are not known: a new leader must not call all well."""
    stored = previous(status, AGENTS_REPORTING)
    if stored is None or stored.get("reason") != AGENTS_NOT_READY:
        return _ALL_REPORT
    message = str(stored.get("message"))
    return Condition(AGENTS_REPORTING, "False", AGENTS_NOT_READY, message)


def _unready_text(unready: Sequence[UnreadyAgent]) -> str:
    """The agents that are not Ready: nodes by reason, the most frequent reason first."""
    nodes_by_reason: dict[str, list[str]] = {}
    for agent in unready:
        nodes_by_reason.setdefault(agent.reason, []).append(agent.node)
    by_frequency = sorted(nodes_by_reason.items(), key=_frequency, reverse=True)
    parts = []
    for reason, nodes in by_frequency:
        parts.append(f"{some_names(nodes)} ({reason})")
    count = len(unready)
    agents = plural(count, "agent is", "agents are")
    return (
        f"{count} {agents} not Ready, so nothing checks that the labels are still true: "
        f"{', '.join(parts)}; see `{_SHOW_AGENTS}`"
    )


def _frequency(nodes_of_reason: tuple[str, Sequence[str]]) -> int:
    _, nodes = nodes_of_reason
    return len(nodes)


def _silent_text(names: Sequence[str], pods: AgentPodsSeen) -> str:
    who = _have(names)
    shown = some_names(names)
    text = f"{who} GPUs but no {GPUS} label: {shown}"
    if pods.unready and pods.missing == NO_MISSING_PODS:
        return text  # the agents that are not Ready follow, and are the cause
    return f"{text}; {pods.missing.cause}"


def _implausible_text(names: Sequence[str]) -> str:
    return (
        f"{_have(names)} a {GPUS} label that is not a number from 0 to {MOST_COUNT}: "
        f"{some_names(names)}; "
        "the device plugin's count is used; check who wrote it"
    )


def _have(names: Sequence[str]) -> str:
    count = len(names)
    return f"{count} {plural(count, 'node has', 'nodes have')}"


def _silent(nodes: Table) -> list[str]:
    if all(GPUS in keys for keys in nodes.key_sets):
        return []  # everybody says something, and no group needs to be looked at
    silent = map(_is_silent, nodes.groups)
    names = nodes.names(silent)
    return sorted(names)


def _is_silent(node: Traits) -> bool:
    """Whether a node has GPUs that no agent has counted.

    An earlier agent may have left other labels behind.
    """
    if node.label(GPUS) is not None:
        return False
    if node.label(GPU_PRESENT) == "true":
        return True
    return bool(node.gpus) or node.label(NVLINK_DOMAIN) is not None


def _implausible(nodes: Table) -> list[str]:
    """Nodes whose label `gpus` is not a count.

    A node whose own name is the label's value stands for itself in the table.
    """
    distinct = nodes.distinct(GPUS)
    if all(map(_is_plausible, distinct)):
        return []
    names = []
    for node in nodes:
        if not _is_plausible(node.label(GPUS)):
            names.append(node.name)
    return sorted(names)


def _is_plausible(value: str | None) -> bool:
    return value is None or count_of(value) is not None
