"""The taints that keep a workload from nodes where it would fit, and the tolerations for them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import Group, Pods, Workload, pods_in
from toposcope.integrations.framework.node_affinity import ExclusionKind, Taint, Toleration
from toposcope.integrations.framework.verdict import Remedy, Verdict
from toposcope.placement.room import RoomNode

_CONDITIONS: Final = "node.kubernetes.io/"
"""Taints that Kubernetes sets for a node's conditions: fix the node instead of tolerating them."""
_MOST_TRIED: Final = 32


def tolerate(
    workload: Workload,
    verdict: Verdict,
    nodes: Iterable[RoomNode],
    judge: Callable[[Workload], Verdict | None],
) -> Remedy | None:
    """The fewest taints whose tolerations make it fit; None where none do.

    `judge` gives the verdict on a workload. Each taint takes as long as a verdict, so only the
    `_MOST_TRIED` taints that keep out the most nodes are tried.
    """
    repelled = _repelled(workload, verdict, nodes)
    taints = _widest(repelled)
    if not taints:
        return None
    # If it fits without any toleration, the quota is short and not the room.
    choices: dict[tuple[Taint, ...], None] = {(): None}
    for taint in taints:
        choices[taint,] = None
    choices[tuple(taints)] = None
    for chosen in choices:
        tolerant = judge(_tolerant(workload, chosen))
        if tolerant is None or not tolerant.fits:
            continue
        return _remedy(chosen, repelled) if chosen else None
    return None


def _repelled(
    workload: Workload, verdict: Verdict, nodes: Iterable[RoomNode]
) -> dict[Taint, list[str]]:
    """The nodes that each taint keeps pods from, for taints that some pods do not tolerate."""
    groups = *workload.groups, *workload.pod_groups
    filters = {pods.node_filter for pods in pods_in(groups)}
    tainted: set[str] = set()
    for left in verdict.excluded:
        if left.exclusion.kind is ExclusionKind.TAINT:
            tainted.update(left.nodes)

    repelled: dict[Taint, list[str]] = {}
    for node in nodes:
        if node.name not in tainted:
            continue
        for taint in node.taints:
            if not all(node_filter.tolerates(taint) for node_filter in filters):
                repelled.setdefault(taint, []).append(node.name)
    return repelled


def _widest(repelled: Mapping[Taint, Sequence[str]]) -> list[Taint]:
    """The taints that people set; if there are too many, those that keep out the most nodes."""
    taints = []
    for taint in repelled:
        if not taint.key.startswith(_CONDITIONS):
            taints.append(taint)
    if len(taints) > _MOST_TRIED:
        taints.sort(key=lambda taint: -len(repelled[taint]))
    return taints[:_MOST_TRIED]


def _remedy(taints: tuple[Taint, ...], repelled: Mapping[Taint, Sequence[str]]) -> Remedy:
    names: dict[str, None] = {}
    for taint in taints:
        names.update(dict.fromkeys(repelled[taint]))
    return Remedy("tolerate", tuple(names), taints=taints)


def _tolerant(workload: Workload, taints: Iterable[Taint]) -> Workload:
    """The workload with pods that tolerate these taints."""
    extra = []
    for taint in taints:
        fields = toleration(taint)
        extra.append(Toleration(**fields))
    return replace(
        workload,
        groups=_tolerant_groups(workload.groups, extra),
        pod_groups=_tolerant_groups(workload.pod_groups, extra),
        admission=None,
        doubt="",
    )


def _tolerant_groups(groups: Iterable[Group], extra: Sequence[Toleration]) -> tuple[Group, ...]:
    tolerant = []
    for group in groups:
        pods = [_tolerant_pods(kind, extra) for kind in group.pods]
        below = _tolerant_groups(group.groups, extra)
        tolerant.append(replace(group, pods=tuple(pods), groups=below))
    return tuple(tolerant)


def _tolerant_pods(pods: Pods, extra: Sequence[Toleration]) -> Pods:
    node_filter = pods.node_filter
    tolerations = *node_filter.tolerations, *extra
    tolerant = replace(node_filter, tolerations=tolerations)
    return replace(pods, node_filter=tolerant)


def toleration(taint: Taint) -> Mapping[str, str]:
    """The toleration of one taint, with the fields of a pod's spec."""
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {
        "key": taint.key,
        "operator": "Equal",
        "value": taint.value,
        "effect": taint.effect,
    }


def as_yaml(taints: Iterable[Taint]) -> Iterator[str]:
    """The tolerations as lines of YAML; strings in double quotes mean the same as in JSON."""
    yield "tolerations:"
    for taint in taints:
        fields = []
        for name, value in toleration(taint).items():
            quoted = json.dumps(value)
            fields.append(f"{name}: {quoted}")
        joined = ", ".join(fields)
        yield f"- {{{joined}}}"
