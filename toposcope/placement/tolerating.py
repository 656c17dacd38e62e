"""The taints that keep a workload from nodes where it would fit, and the tolerations that admit it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.node_affinity import Taint, Toleration
from toposcope.placement.room import Node
from toposcope.placement.verdict import Remedy, Verdict

_CONDITIONS: Final = "node.kubernetes.io/"
"""Taints that Kubernetes sets for a node's conditions: there the node is to be mended."""
_MOST_TRIED: Final = 32


def tolerate(
    workload: Workload,
    verdict: Verdict,
    nodes: Iterable[Node],
    judge: Callable[[Workload], Verdict | None],
) -> Remedy | None:
    """The fewest taints whose tolerations make it fit; None where none do.

    `judge` gives the verdict on a workload.

    Of more than `_MOST_TRIED` taints those are tried that keep out the most nodes: each takes as
    long as a verdict.
    """
    groups = (*workload.groups, *workload.pod_groups)
    filters = {
        pods.node_filter for top in groups for group, _ in top.everything() for pods in group.pods
    }
    left_out = {
        name
        for reason, names in verdict.excluded
        if reason.startswith("has taint")
        for name in names
    }
    repelled: dict[Taint, list[str]] = {}
    for node in nodes:
        for taint in node.taints if node.name in left_out else ():
            if not all(of.tolerates(taint) for of in filters):
                repelled.setdefault(taint, []).append(node.name)
    wanted = {
        taint: names for taint, names in repelled.items() if not taint.key.startswith(_CONDITIONS)
    }
    if not wanted:
        return None
    if len(wanted) > _MOST_TRIED:
        widest = sorted(wanted, key=lambda taint: -len(wanted[taint]))[:_MOST_TRIED]
        wanted = {taint: wanted[taint] for taint in widest}
    # Where none is needed, not room is what lacks but quota.
    for taints in dict.fromkeys(((), *((taint,) for taint in wanted), tuple(wanted))):
        extra = tuple(Toleration(**toleration(taint)) for taint in taints)
        found = judge(_tolerant(workload, extra))
        if found and found.kind == "fits":
            names = dict.fromkeys(name for taint in taints for name in wanted[taint])
            return Remedy("tolerate", tuple(names), taints=taints) if taints else None
    return None


def _tolerant(workload: Workload, extra: tuple[Toleration, ...]) -> Workload:
    def of(group: Group) -> Group:
        pods = (
            replace(
                kind,
                node_filter=replace(
                    kind.node_filter, tolerations=(*kind.node_filter.tolerations, *extra)
                ),
            )
            for kind in group.pods
        )
        return replace(group, pods=tuple(pods), groups=tuple(map(of, group.groups)))

    groups, pod_groups = tuple(map(of, workload.groups)), tuple(map(of, workload.pod_groups))
    return replace(workload, groups=groups, pod_groups=pod_groups, admission=None, doubt="")


def toleration(taint: Taint) -> Mapping[str, str]:
    """The toleration of one taint, as a pod has it."""
    value = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    return {"key": taint.key, **value, "effect": taint.effect}


def as_yaml(taints: Iterable[Taint]) -> Iterator[str]:
    """The tolerations as lines of YAML; strings in double quotes mean the same as in JSON."""
    yield "tolerations:"
    for taint in taints:
        yield (
            "- {"
            + ", ".join(f"{name}: {json.dumps(value)}" for name, value in toleration(taint).items())
            + "}"
        )
