"""Where waiting pods have to go, beyond what their templates say, and who is in the way there.

A pod is bound to some nodes by node selectors that were added to it, and by the pods that its
required `podAffinity` names (rules: Kubernetes' plugins NodeAffinity and InterPodAffinity).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.explain.context import Context
from toposcope.explain.one_pod import Seeker
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import CheckStep, explained, failed, passed
from toposcope.integrations.framework.node_terms import node_filter_of
from toposcope.integrations.framework.waiting import Pin
from toposcope.integrations.registry import waiting
from toposcope.placement.waiting_pod import Followed, WaitingPod
from toposcope.snapshot.model import NodeView, PodView
from toposcope.text import Command, enumerated, listing, plural, shell

_MOST_PODS: Final = 50
"""How many waiting pods are checked: those of a group are bound in the same way."""
_LOST: Final = frozenset({"availability"})
"""The step about chosen nodes that no longer take pods."""
_MOST_NODES: Final = 5
_MOST_MATES: Final = 3


@dataclass(frozen=True, slots=True)
class _Bond:
    """A label of which the nodes that a pod may go to have one of some values."""

    key: str
    values: frozenset[str]
    words: str
    """Who or what binds the pod, in a sentence that begins with that."""
    way_out: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()

    def allows(self, node: NodeView) -> bool:
        return node.label(self.key) in self.values


@dataclass(frozen=True, slots=True)
class _BoundPod:
    """A waiting pod with its bonds."""

    seeker: Seeker
    bonds: tuple[_Bond, ...]

    @property
    def sentence(self) -> str:
        """What binds it."""
        words = [bond.words for bond in self.bonds]
        return " and ".join(dict.fromkeys(words))

    def can_use(self, node: NodeView) -> bool:
        return all(bond.allows(node) for bond in self.bonds)


@dataclass(frozen=True, slots=True)
class _Shortage:
    """A resource of which a node has too little free for a pod."""

    resource: str
    needs: int
    free: int


def check_pinned(context: Context) -> CheckStep:
    """There is room on the nodes that the waiting pods are bound to."""
    roomy = []
    stuck = []
    for bound in _bound_pods(context):
        if _takers(context, bound):
            roomy.append(bound)
        else:
            stuck.append(bound)

    if stuck:
        return _no_room(context, stuck)
    if roomy:
        return passed(f"{roomy[0].sentence}, and there is room")
    return passed("nothing binds a waiting pod to certain nodes")


def _bound_pods(context: Context) -> Iterator[_BoundPod]:
    """The first waiting pods that are bound to some nodes."""
    if context.snapshot.pods is None or not context.cluster_nodes:
        return
    of_templates = _selectors_of_templates(context)
    for pod in context.waiting[:_MOST_PODS]:
        document = context.pod_document(pod)
        if document is None:
            continue
        spec = Field(document) / "spec"
        bonds = list(_selected(context, pod, spec, of_templates))
        bonds += _near(context, pod, spec)
        if bonds:
            refusals = WaitingPod(context.snapshot, pod).refusals()
            seeker = Seeker(context.snapshot, pod, node_filter_of(spec), refusals)
            yield _BoundPod(seeker, tuple(bonds))


def _selectors_of_templates(context: Context) -> set[tuple[str, str]] | None:
    """The node selectors that the workload itself asks for; None: not known."""
    if not context.workloads:
        return None
    selectors: set[tuple[str, str]] = set()
    for workload in context.workloads:
        for top in workload.groups:
            for group, _ in top.everything():
                for pods in group.pods:
                    selectors.update(pods.node_filter.selector)
    return selectors


def _selected(
    context: Context, pod: PodView, spec: Field, of_templates: set[tuple[str, str]] | None
) -> Iterator[_Bond]:
    """The bonds by node selectors that the pod's template lacks."""
    for key, value in (spec / "nodeSelector").texts().items():
        pin = _pin(context, pod, key, value)
        if pin:
            yield _pinned(context, pod, key, value, pin)
        elif of_templates is not None and (key, value) not in of_templates:
            words = f"pod/{pod.name} has a node selector that its template lacks: {key}={value}"
            yield _Bond(key, frozenset({value}), words)


def _pin(context: Context, pod: PodView, key: str, value: str) -> Pin | None:
    for system in waiting():
        pin = system.pin(context, pod, key, value)
        if pin:
            return pin
    return None


def _pinned(context: Context, pod: PodView, key: str, value: str, pin: Pin) -> _Bond:
    where = f"{key}={value}"
    if key == HOSTNAME:
        where = _node_of(context, value) or where
    words = f"{pin.who} pins pod/{pod.name} to {where}"
    if pin.why:
        words += f", because {pin.why}"
    return _Bond(key, frozenset({value}), words, pin.way_out, pin.commands)


def _node_of(context: Context, hostname: str) -> str:
    """The Node with this label, as `kubectl get node` knows it; empty: none has it."""
    for node in context.snapshot.nodes:
        if node.label(HOSTNAME) != hostname:
            continue
        if node.name == hostname:
            return f"node {node.name}"
        return f"node {node.name} ({HOSTNAME}={hostname})"
    return ""


def _near(context: Context, pod: PodView, spec: Field) -> Iterator[_Bond]:
    """The bonds by pods that run, near which the pod has to be."""
    if not spec / "affinity" / "podAffinity":
        return
    by_key: dict[str, list[Followed]] = {}
    for followed in WaitingPod(context.snapshot, pod).followed():
        of_key = by_key.setdefault(followed.key, [])
        of_key.append(followed)
    for key, domains in by_key.items():
        yield _bond_to_mates(pod, key, domains)


def _bond_to_mates(pod: PodView, key: str, domains: Sequence[Followed]) -> _Bond:
    mates: list[str] = []
    values = []
    for followed in domains:
        mates += followed.mates
        values.append(followed.value)
    words = (
        f"pod/{pod.name} has to share {key} with {listing(mates, _MOST_MATES)}, "
        f"by its pod affinity: {enumerated(values, 'or')}"
    )
    return _Bond(key, frozenset(values), words)


def _takers(context: Context, bound: _BoundPod) -> list[NodeView]:
    """The nodes that a pod is bound to and that take it."""
    takers = []
    for node in context.snapshot.nodes:
        if bound.can_use(node) and not bound.seeker.obstacle(node):
            takers.append(node)
    return takers


def _no_room(context: Context, stuck: Sequence[_BoundPod]) -> CheckStep:
    """The step where the nodes that pods are bound to do not take them."""
    first = stuck[0]
    inside = [node for node in context.snapshot.nodes if first.can_use(node)]
    message = f"{first.sentence}, and {_none_of(inside)}"

    way_out: list[str] = []
    commands: list[Command] = []
    for bond in first.bonds:
        way_out += bond.way_out
        commands += bond.commands
    for node in inside[:_MOST_NODES]:
        commands.append(shell("kubectl describe node {}", node.name))

    step = failed(
        message,
        *_obstacles(first, inside),
        _elsewhere(context, first),
        *way_out,
        commands=tuple(commands),
    )
    if any(node.is_usable for node in inside):
        return step
    return explained(step, _LOST)


def _none_of(nodes: Sequence[NodeView]) -> str:
    count = len(nodes)
    if not count:
        return "there is no such node"
    return plural(count, "that node has no room", f"none of those {count} nodes has room")


def _obstacles(bound: _BoundPod, nodes: Sequence[NodeView]) -> Iterator[str]:
    """Why some of the nodes do not take a pod, a line each."""
    for node in nodes[:_MOST_NODES]:
        yield f"{node.name}: {bound.seeker.obstacle(node)}"
    more = len(nodes) - _MOST_NODES
    if more > 0:
        yield f"and {more} more {plural(more, 'node')}"


def _elsewhere(context: Context, bound: _BoundPod) -> str:
    """The nodes that have room, and that the pod must not use; empty: none."""
    anywhere = bound.seeker.without_selectors()
    others = []
    for node in context.snapshot.nodes:
        if not bound.can_use(node) and not anywhere.obstacle(node):
            others.append(node.name)
    if not others:
        return ""
    names = listing(others, _MOST_NODES)
    have = plural(len(others), "has", "have")
    return f"{names} {have} room, but the pod must not go there"
