"""Why a node does not take one waiting pod, and who holds what is short there.

Rules: Kubernetes' plugins NodeUnschedulable, NodeAffinity, TaintToleration, NodeResourcesFit, and
those about running pods (`placement/waiting_pod.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from toposcope.integrations.framework.amounts import amount, is_bytes, number_of
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.placement.sentences import why
from toposcope.placement.waiting_pod import Refusal
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.text import listing, plural

_MOST_HOLDERS: Final = 3
_POD_COUNT: Final = "pods"


@dataclass(frozen=True, slots=True)
class _Shortage:
    """A resource of which a node has too little free for a pod."""

    resource: str
    needs: int
    free: int


@dataclass(frozen=True, slots=True)
class Seeker:
    """A pod that seeks a node of a cluster."""

    snapshot: Snapshot
    pod: PodView
    node_filter: NodeFilter
    """The nodes that its spec allows."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """By node, why the pods that run keep it away."""

    def without_selectors(self) -> "Seeker":
        """The same, if it selected no nodes."""
        tolerant = NodeFilter(tolerations=self.node_filter.tolerations)
        return replace(self, node_filter=tolerant, refusals={})

    def obstacle(self, node: NodeView) -> str:
        """Why a node does not take the pod; empty: it does, as far as is known."""
        if not node.is_ready:
            return "it is not Ready"
        if not node.is_schedulable:
            return "it is cordoned"
        exclusion = self.node_filter.rejection(node.name, node.labels, node.taints)
        if exclusion:
            return f"it {why(exclusion)}"
        refusal = self.refusals.get(node.name)
        if refusal:
            return f"node(s) {refusal.says}: {listing(refusal.pods, _MOST_HOLDERS)}"
        shortage = self._shortage(node)
        if shortage is None:
            return ""
        return self._short(node, shortage)

    def _shortage(self, node: NodeView) -> _Shortage | None:
        """The first resource of which the node has too little free, GPUs before CPU and memory."""
        free = self.snapshot.free(node) or {}
        needs = {_POD_COUNT: 1, **self.pod.requests}
        for resource in sorted(needs, reverse=True):
            free_amount = free.get(resource, 0)
            if needs[resource] > free_amount:
                return _Shortage(resource, needs[resource], free_amount)
        return None

    def _short(self, node: NodeView, shortage: _Shortage) -> str:
        resource = shortage.resource
        total = node.allocatable.get(resource, 0)
        if not total:
            return f"it has no {resource}"
        free = "none"
        if shortage.free:
            free = number_of(resource, shortage.free, total)
        needs = amount(resource, shortage.needs)
        offered = amount(resource, total)
        are = "is"
        if shortage.free and not is_bytes(resource):
            are = plural(shortage.free, "is", "are")
        words = f"the pod needs {needs}, and {free} of {offered} {are} free"
        holders = list(self._holders(node, resource))
        if holders:
            words += f"; {listing(holders, _MOST_HOLDERS)}"
        return words

    def _holders(self, node: NodeView, resource: str) -> Iterator[str]:
        """The pods that hold a resource of the node, those that hold most first."""
        held = {}
        for pod in self.snapshot.pods or ():
            if pod.node == node.name and pod.requests.get(resource):
                held[f"{pod.namespace}/{pod.name}"] = pod.requests[resource]
        for name in sorted(held, key=held.__getitem__, reverse=True):
            yield f"{name} holds {amount(resource, held[name])}"
