"""Checks whether the nodes to which Kueue assigned pods are gone, not Ready or cordoned."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import CheckStep, Object, Ref, condition, failed
from toposcope.integrations.framework.waiting import NodeState, WaitingWorkload
from toposcope.integrations.kueue.api import WORKLOAD
from toposcope.integrations.kueue.queues import AssignedDomain, assigned_domains
from toposcope.text import listing, plural, shell

_MOST_NAMES: Final = 5
_State = Literal["gone", "not Ready", "cordoned"]
_REPLACES: Final[dict[_State, str]] = {
    "gone": (
        "Kueue 0.19 immediately looks for another node in the pods' domain, and evicts the "
        "Workload if there is none or if a second node fails"
    ),
    "not Ready": (
        "Kueue 0.19 replaces the node once none of the Workload's pods runs there: "
        "Kubernetes deletes them after their tolerationSeconds (5 minutes by default), "
        "or delete them yourself"
    ),
    "cordoned": (
        "running pods stay; for pods that cannot start there, Kueue 0.19 replaces the node once "
        "none of the Workload's pods runs on it: uncordon it, or delete those pods"
    ),
}
"""What Kueue does if kubernetes.io/hostname is the lowest level:
pkg/controller/tas/node_controller.go of 0.19.2, default feature gates (TASFailedNodeReplacement,
TASReplaceNodeOnPodTermination and so on)."""
_KEEPS: Final = (
    "Kueue 0.19 replaces nodes only in topologies whose lowest level is kubernetes.io/hostname; "
    "to make Kueue assign the Workload again, set its spec.active to false, and to true again"
)


_UNKNOWN_NODE: Final = (
    "Kueue up to 0.20 does not replace it: it looks for a Node of that name, and the name differs "
    f"from the label {HOSTNAME} that it assigned; "
    "to make Kueue assign the Workload again, set its spec.active to false, and to true again"
)
"""kueue#14304."""


class _LostDomain(NamedTuple):
    """A domain that cannot run the pods that were assigned to it."""

    domain: AssignedDomain
    state: _State
    nodes: tuple[str, ...] = ()
    """The names of its nodes that exist."""

    @property
    def is_node(self) -> bool:
        return self.domain.levels[-1:] == (HOSTNAME,)

    @property
    def name(self) -> str:
        """The Node's name, as in `kubectl get node`, with its label if that differs."""
        value = self.domain.values[-1]
        if not self.is_node or not self.nodes or self.nodes[0] == value:
            return value
        return f"{self.nodes[0]} ({HOSTNAME}={value})"


def check_assignment(explained: WaitingWorkload) -> CheckStep | None:
    """A domain of a Workload's topologyAssignment that cannot run its pods; None if unknown."""
    if explained.has_finished or not explained.cluster_nodes:
        return None

    for ref, workload in explained.members(WORKLOAD):
        if _has_finished(workload):
            continue
        lost = list(_lost(explained, workload))
        if lost:
            return _step(ref, workload, lost)

    return None


def _has_finished(workload: Object) -> bool:
    reported = condition(workload, "Finished")
    return reported is not None and reported.status == "True"


_Path = tuple[str | None, ...]


def _lost(explained: WaitingWorkload, workload: Object) -> Iterator[_LostDomain]:
    by_levels: dict[tuple[str, ...], Mapping[_Path, list[NodeState]]] = {}
    for domain in assigned_domains(workload):
        levels = domain.levels
        if levels not in by_levels:
            by_levels[levels] = _nodes_by_path(explained, levels)
        nodes = by_levels[levels].get(domain.values, [])

        state = _state(nodes)
        if state == "cordoned" and explained.is_fully_placed:
            continue  # what runs on a cordoned node stays there
        if state:
            names = tuple([node.name for node in nodes])
            yield _LostDomain(domain, state, names)


def _nodes_by_path(
    explained: WaitingWorkload, levels: Sequence[str]
) -> Mapping[_Path, list[NodeState]]:
    nodes: dict[_Path, list[NodeState]] = {}
    for node in explained.cluster_nodes.values():
        path = tuple([_value(node, level) for level in levels])
        nodes.setdefault(path, []).append(node)
    return nodes


def _value(node: NodeState, level: str) -> str | None:
    value = node.label(level)
    if value:
        return value
    return node.name if level == HOSTNAME else None


def _state(nodes: Sequence[NodeState]) -> _State | None:
    if not nodes:
        return "gone"
    if not any(node.is_ready for node in nodes):
        return "not Ready"
    if not any(node.is_usable for node in nodes):
        return "cordoned"
    return None


def _step(ref: Ref, workload: Object, lost: Sequence[_LostDomain]) -> CheckStep:
    first, *others = lost
    domain = first.domain
    if first.is_node:
        node = first.nodes[0] if first.nodes else domain.values[-1]
        what = f"node {first.name}"
        look = shell("kubectl get node {}", node)
        happens = _REPLACES[first.state]
        if node != domain.values[-1]:
            happens = _UNKNOWN_NODE
    else:
        levels = domain.levels
        what = f"domain {'/'.join(domain.values)} ({', '.join(levels)})"
        look = shell("kubectl get nodes -L {}", ",".join(levels))
        happens = _KEEPS

    also = []
    for other_domain in others[:_MOST_NAMES]:
        also.append(f"also {other_domain.name}: {other_domain.state}")

    count = domain.pods
    pods = f"{count} {plural(count, 'pod')} of pod set {domain.pod_set}"
    describe = "kubectl get workloads.kueue.x-k8s.io {} -n {} -o yaml"
    return failed(
        f"Kueue assigned {pods} to {what}, which is {first.state}",
        *also,
        _marked(workload),
        happens,
        commands=(
            shell(describe, ref.name, ref.namespace),
            look,
        ),
    )


def _marked(workload: Object) -> str:
    """The nodes that Kueue itself has marked as failed; empty if none."""
    names = []
    unhealthy = Field(workload) / "status" / "unhealthyNodes"
    for node in unhealthy.items():
        names.append((node / "name").text() or "")
    if not names:
        return ""
    return f"Kueue has marked as failed: {listing(names, _MOST_NAMES)}"
