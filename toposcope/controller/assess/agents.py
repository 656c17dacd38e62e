"""Whether every node with GPUs has an agent, and what their labels claim: pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.conditions import AGENTS_REPORTING, Condition
from toposcope.api.label_keys import GPU_PRESENT, GPUS, NVLINK_DOMAIN
from toposcope.api.label_values import MOST_COUNT, count_of
from toposcope.hierarchy.coverage import some_names
from toposcope.hierarchy.node import Traits
from toposcope.hierarchy.table import Table
from toposcope.text import plural

_IS_IT_RUNNING: Final = "is the agent's DaemonSet running there?"
"""The question about nodes without labels, while the cause is not known."""
_PODS_NOT_CREATED: Final = "AgentPodsNotCreated"


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


def agent_reports(nodes: Table) -> AgentReports:
    """What all nodes of the cluster show of their agents."""
    return AgentReports(silent=_silent(nodes), implausible=_implausible(nodes))


def agents_condition(reports: AgentReports, pods: MissingPods = NO_MISSING_PODS) -> Condition:
    """The `AgentsReporting` condition.

    Where pods cannot be created it is False even if all nodes have labels, because these may have
    been left behind by pods that are gone.
    """
    texts = []
    reason = _PODS_NOT_CREATED
    if reports.silent:
        texts.append(_silent_text(reports.silent, pods))
        reason = _PODS_NOT_CREATED if pods.refusal else "NodesWithoutLabels"
    elif pods.refusal and not reports.implausible:
        texts.append(f"labels may be old; {pods.cause}")
    if reports.implausible:
        texts.insert(0, _implausible_text(reports.implausible))
        if not (reports.silent and pods.refusal):
            reason = "ImplausibleLabels"
    if texts:
        return Condition(AGENTS_REPORTING, "False", reason, "; ".join(texts))
    text = "Every node with GPUs carries the labels of an agent"
    return Condition(AGENTS_REPORTING, "True", "AllAgentsReport", text)


def _silent_text(names: Sequence[str], pods: MissingPods) -> str:
    who = _have(names)
    shown = some_names(names)
    return f"{who} GPUs but no {GPUS} label: {shown}; {pods.cause}"


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
