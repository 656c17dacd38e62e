"""The nodes to which Kueue assigned pods, as they are now: gone, not Ready or cordoned."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from toposcope.api.label_keys import HOSTNAME
from toposcope.explain.context import Context
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import Object, Ref, Step, condition, failed
from toposcope.integrations.kueue.api import WORKLOAD
from toposcope.integrations.kueue.queues import AssignedDomain, assigned_domains
from toposcope.snapshot.model import NodeView
from toposcope.text import listing, plural, shell

_MOST_NAMES: Final = 5
State = Literal["gone", "not Ready", "cordoned"]
_REPLACES: Final[dict[State, str]] = {
    "gone": (
        "Kueue 0.19 looks at once for another node in the domain that the pods share, and evicts the Workload if there "
        "is none; a second failed node evicts it, too"
    ),
    "not Ready": (
        "Kueue 0.19 replaces the node once none of the Workload's pods runs there: Kubernetes deletes them after their "
        "tolerationSeconds (5 minutes by default), or delete them yourself"
    ),
    "cordoned": (
        "pods that run there stay; for those that cannot start there, Kueue 0.19 replaces the node once none of the "
        "Workload's pods runs on it: uncordon it, or delete them"
    ),
}
"""What Kueue does where kubernetes.io/hostname is the lowest level:
pkg/controller/tas/node_controller.go of 0.19.2, default feature gates (TASFailedNodeReplacement,
TASReplaceNodeOnPodTermination and so on)."""
_KEEPS: Final = (
    "Kueue 0.19 replaces nodes only in topologies whose lowest level is kubernetes.io/hostname; to make Kueue "
    "assign the Workload again, set its spec.active to false, and to true again"
)


def check_assignment(context: Context) -> Step | None:
    """A domain of a Workload's topologyAssignment that cannot run its pods; None where none is known."""
    if context.finished or not context.snapshot.nodes:
        return None

    for ref, workload in context.members(WORKLOAD):
        if _has_finished(workload):
            continue

        lost = list(_lost(context, workload))
        if lost:
            return _step(ref, workload, lost)

    return None


def _has_finished(workload: Object) -> bool:
    reported = condition(workload, "Finished")
    return reported is not None and reported.status == "True"


def _lost(context: Context, workload: Object) -> Iterator[tuple[AssignedDomain, State]]:
    known: dict[tuple[str, ...], dict[tuple[str | None, ...], list[NodeView]]] = {}
    for domain in assigned_domains(workload):
        if domain.levels not in known:
            nodes = known.setdefault(domain.levels, {})
            for node in context.snapshot.nodes:
                nodes.setdefault(_path(node, domain.levels), []).append(node)

        state = _state(known[domain.levels].get(domain.values, []))
        # What runs on a cordoned node stays there.
        if state and not (state == "cordoned" and context.all_placed):
            yield domain, state


def _path(node: NodeView, levels: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(
        node.label(level) or (node.name if level == HOSTNAME else None) for level in levels
    )


def _state(nodes: list[NodeView]) -> State | None:
    if not nodes:
        return "gone"

    ready = [node for node in nodes if node.ready]
    if not ready:
        return "not Ready"

    return None if any(node.schedulable for node in ready) else "cordoned"


def _step(ref: Ref, workload: Object, lost: list[tuple[AssignedDomain, State]]) -> Step:
    (first, state), *others = lost
    hosts = first.levels[-1:] == (HOSTNAME,)
    name = first.values[-1] if hosts else "/".join(first.values)
    what = f"node {name}" if hosts else f"domain {name} ({', '.join(first.levels)})"
    marked = [
        (node / "name").text() or ""
        for node in (Field(workload) / "status" / "unhealthyNodes").items()
    ]
    pods = f"{first.pods} {plural(first.pods, 'pod')} of pod set {first.pod_set}"
    look = (
        shell("kubectl get node {}", name)
        if hosts
        else shell("kubectl get nodes -L {}", ",".join(first.levels))
    )

    return failed(
        f"Kueue assigned {pods} to {what}, which is {state}",
        *(f"also {domain.values[-1]}: {its_state}" for domain, its_state in others[:_MOST_NAMES]),
        f"Kueue has marked as failed: {listing(marked, _MOST_NAMES)}" if marked else "",
        _REPLACES[state] if hosts else _KEEPS,
        commands=(
            shell("kubectl get workloads.kueue.x-k8s.io {} -n {} -o yaml", ref.name, ref.namespace),
            look,
        ),
    )
