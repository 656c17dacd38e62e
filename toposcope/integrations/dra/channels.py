"""Channels of ComputeDomains: claims by which pods share memory over NVLink.

NVIDIA's driver forms such a domain from whatever nodes the pods run on; a claim of a channel does
not choose nodes. Pods in different NVLink domains start anyway, but share no memory. Source:
k8s-dra-driver-gpu v0.5 (compute-domain-controller).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.integrations.dra.allocation import Claims
from toposcope.integrations.framework.constraints import Group, OfferedNode, Pods, Workload
from toposcope.integrations.framework.document import Finding

RULE: Final = "dra/compute-domain"
_CLIQUES: Final = (NVLINK_DOMAIN, "nvidia.com/gpu.clique")
"""Labels with the NVLink domain of a node."""
_Path = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class _Sharing:
    """The pods of one copy of a group that share memory."""

    group: Group
    pods: Pods
    required: Level | None
    """The groups that keep them together."""


def unkept_channels(
    workload: Workload, claims: Claims, nodes: Sequence[OfferedNode], levels: Sequence[Level]
) -> Iterator[Finding]:
    """A warning for each group whose pods share memory and may use several NVLink domains."""
    for group in workload.groups:
        for sharing in _sharing(group, claims, None):
            sizes = _sizes_of_domains(sharing, nodes, levels)
            if len(sizes) > 1:
                yield _warning(sharing, max(sizes))


def _sharing(group: Group, claims: Claims, above: Level | None) -> Iterator[_Sharing]:
    required = group.required or above
    for pods in group.pods:
        if pods.count > 1 and any(claims.is_channel(claim) for claim in pods.claims):
            yield _Sharing(group, pods, required)
            break
    for inner in group.groups:
        yield from _sharing(inner, claims, required)


def _sizes_of_domains(
    sharing: _Sharing, nodes: Sequence[OfferedNode], levels: Sequence[Level]
) -> Collection[int]:
    """The sizes in nodes of the NVLink domains over which the pods may spread; else at most one."""
    kept_by = _kept_by(sharing.required, levels)
    sizes: dict[_Path, dict[str, int]] = {}
    for node in nodes:
        clique = _clique_of(node)
        if clique is None or sharing.pods.node_filter.rejection(
            node.name, node.labels, node.taints
        ):
            continue
        path = tuple(node.labels.get(level.key) for level in kept_by)
        cliques = sizes.setdefault(path, {})
        cliques[clique] = cliques.get(clique, 0) + 1
    return max((cliques.values() for cliques in sizes.values()), key=len, default=())


def _kept_by(required: Level | None, levels: Sequence[Level]) -> Sequence[Level]:
    """The levels whose value is the same for all of the pods."""
    if required is None:
        return ()
    if required in levels:
        return levels[: levels.index(required) + 1]
    return (required,)


def _clique_of(node: OfferedNode) -> str | None:
    for label in _CLIQUES:
        clique = node.labels.get(label)
        if clique:
            return clique
    return None


def _warning(sharing: _Sharing, largest: int) -> Finding:
    name = sharing.group.own_name or sharing.group.name
    message = (
        f"nothing keeps the {sharing.pods.count} pods of {name} in one NVLink domain, of which the "
        f"largest has {largest} nodes: a ComputeDomain does not choose nodes, and pods in "
        "different domains share no memory, without any error"
    )
    fix = "require the NVLink domain's level for them, such as nvidia.com/gpu.clique"
    return Finding(RULE, "warning", "", message, fix)
