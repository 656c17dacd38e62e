"""An independent reference for the rules between pods: every order and every choice of kube-scheduler, on few nodes.

It reads Kubernetes' objects as they are, and shares no code with placement.
"""

from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU = "nvidia.com/gpu"


@dataclass
class Reachable:
    """What kube-scheduler can end with."""

    can_succeed: bool = False
    can_fail: bool = False
    """Because of rules among the pods themselves: what running pods forbid is like a node selector."""
    seen: set[tuple[tuple[str, int], ...]] = field(default_factory=set)


def reachable(nodes: list[Object], running: list[Object], pods: list[Object]) -> Reachable:
    """Everything that kube-scheduler may do with these pods, in whatever order they come."""
    found = Reachable()
    barred = set()
    for pod in pods:
        for node in nodes:
            if _is_barred(node, nodes, running, pod, pods):
                barred.add((id(pod["spec"]), node["metadata"]["name"]))
    _explore(nodes, list(running), pods, found, barred)
    return found


def _is_barred(node: Object, nodes: list[Object], running: list[Object], pod: Object, pods: list[Object]) -> bool:
    """Whether running pods keep the pod from a node, whatever becomes of the other pods."""
    constraints = pod["spec"].get("topologySpreadConstraints", [])
    if any(constraint["topologyKey"] not in node["metadata"]["labels"] for constraint in constraints):
        return True
    terms = _terms(pod, "podAffinity")
    alone = {**pod["spec"], "affinity": {"podAntiAffinity": pod["spec"].get("affinity", {}).get("podAntiAffinity", {})}}
    alone.pop("topologySpreadConstraints", None)
    if not _is_allowed(node, nodes, running, {**pod, "spec": alone}):
        return True
    for other in pods:
        is_mate = bool(terms) and all(_selects(term, pod, other) for term in terms)
        if is_mate and other["spec"] is not pod["spec"]:
            return False
    labels_by_node = {item["metadata"]["name"]: item["metadata"]["labels"] for item in nodes}
    return not _is_near(node["metadata"]["labels"], labels_by_node, running, pod)


def _explore(
    nodes: list[Object],
    placed: list[Object],
    missing: list[Object],
    found: Reachable,
    barred: set[tuple[int, str]],
) -> None:
    if not missing:
        found.can_succeed = True
        return
    state = tuple(sorted((pod["spec"]["nodeName"], id(pod["spec"]["containers"])) for pod in placed))
    if state in found.seen:
        return
    found.seen.add(state)
    is_stuck = True
    is_kept_off = False
    tried = set()
    for number, pod in enumerate(missing):
        kind = id(pod["spec"]["containers"])
        if kind in tried:
            continue
        tried.add(kind)
        for node in nodes:
            if not _has_room(node, placed, pod):
                continue
            if not _is_allowed(node, nodes, placed, pod):
                is_kept_off |= (id(pod["spec"]), node["metadata"]["name"]) not in barred
                continue
            is_stuck = False
            bound = {**pod, "spec": {**pod["spec"], "nodeName": node["metadata"]["name"]}}
            others = missing[:number] + missing[number + 1 :]
            _explore(nodes, [*placed, bound], others, found, barred)
    if is_stuck and is_kept_off:
        found.can_fail = True


def _gpus(pod: Object) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])


def _has_room(node: Object, placed: list[Object], pod: Object) -> bool:
    selector = pod["spec"].get("nodeSelector", {})
    if not selector.items() <= node["metadata"]["labels"].items():
        return False
    free = int(node["status"]["allocatable"][GPU])
    for other in placed:
        if other["spec"]["nodeName"] == node["metadata"]["name"]:
            free -= _gpus(other)
    return free >= _gpus(pod)


def _is_allowed(node: Object, nodes: list[Object], placed: list[Object], pod: Object) -> bool:
    labels_by_node = {item["metadata"]["name"]: item["metadata"]["labels"] for item in nodes}
    labels = node["metadata"]["labels"]
    for other in placed:
        there = labels_by_node[other["spec"]["nodeName"]]
        if there is labels and _same_port(pod, other):
            return False
        for owner, target in ((pod, other), (other, pod)):
            for term in _terms(owner, "podAntiAffinity"):
                if _selects(term, owner, target) and _together(labels, there, term["topologyKey"]):
                    return False
    if not _is_near(labels, labels_by_node, placed, pod):
        return False
    for constraint in pod["spec"].get("topologySpreadConstraints", []):
        if not _is_spread(labels, nodes, placed, pod, constraint):
            return False
    return True


def _same_port(pod: Object, other: Object) -> bool:
    ports = {port["hostPort"] for port in pod["spec"]["containers"][0].get("ports", [])}
    taken = {port["hostPort"] for port in other["spec"]["containers"][0].get("ports", [])}
    return bool(ports & taken)


def _terms(pod: Object, kind: str) -> list[Object]:
    terms: list[Object] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return terms


def _selects(term: Object, owner: Object, target: Object) -> bool:
    if owner["metadata"]["namespace"] != target["metadata"]["namespace"] and "namespaceSelector" not in term:
        return False
    return bool(term["labelSelector"]["matchLabels"].items() <= target["metadata"]["labels"].items())


def _together(labels: Object, others: Object, key: str) -> bool:
    return key in labels and labels[key] == others.get(key)


def _is_near(labels: Object, labels_by_node: dict[str, Object], placed: list[Object], pod: Object) -> bool:
    terms = _terms(pod, "podAffinity")
    if any(term["topologyKey"] not in labels for term in terms):
        return False
    mates = [other for other in placed if all(_selects(term, pod, other) for term in terms)]
    places = [labels_by_node[mate["spec"]["nodeName"]] for mate in mates]
    if all(any(_together(labels, place, term["topologyKey"]) for place in places) for term in terms):
        return True
    has_place = any(term["topologyKey"] in place for term in terms for place in places)
    return not has_place and all(_selects(term, pod, pod) for term in terms)


def _is_spread(labels: Object, nodes: list[Object], placed: list[Object], pod: Object, constraint: Object) -> bool:
    key = constraint["topologyKey"]
    keys = [each["topologyKey"] for each in pod["spec"]["topologySpreadConstraints"]]
    selector = constraint["labelSelector"]["matchLabels"]
    if key not in labels:
        return False
    counts: dict[str, int] = {}
    for node in nodes:
        there = node["metadata"]["labels"]
        selected = pod["spec"].get("nodeSelector", {}).items() <= there.items()
        if not all(each in there for each in keys) or not selected:
            continue
        counts.setdefault(there[key], 0)
        for other in placed:
            is_here = other["spec"]["nodeName"] == node["metadata"]["name"]
            is_own = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            if is_here and is_own and selector.items() <= other["metadata"]["labels"].items():
                counts[there[key]] += 1
    fewest = min(counts.values(), default=0)
    if len(counts) < constraint.get("minDomains", 1):
        fewest = 0
    own = 1 if selector.items() <= pod["metadata"]["labels"].items() else 0
    return bool(counts.get(labels[key], 0) + own - fewest <= constraint["maxSkew"])
