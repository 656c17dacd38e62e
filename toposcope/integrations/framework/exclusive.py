"""Exclusive placement of groups of pods.

Pod affinity and anti-affinity over one node label. The label need not be a level of any topology: a
domain is a value of the label. The anti-affinity applies to every running pod of another group, so
their domains are occupied.
"""

from dataclasses import replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Holder, Pods
from toposcope.integrations.framework.document import Field, FixSuggestion
from toposcope.integrations.framework.levels import did_you_mean, did_you_mean_key
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.system import ClusterFacts

_MAX_LISTED: Final = 12


def exclusive_level(
    annotation: Field, cluster: ClusterFacts, rule: str, message: str
) -> Level | None:
    """The node label that the annotation names, as a level; None without an annotation.

    `message` is the system's error for a node without the label.
    """
    key = annotation.text()
    if key is None:
        return None
    if cluster.lacks_label(key):
        annotation.error(rule, message, _fix(key, cluster))

    for topology in cluster.topologies.values():
        level = topology.by_key(key)
        if level:
            return level
    domain = cluster.domain_of.get(key, key)
    return Level(domain, key)


def _fix(key: str, cluster: ClusterFacts) -> str:
    """What to do about a label that no node has."""
    fix = f"no node carries the label {key!r}"
    meant = did_you_mean_key(key, cluster.topologies.values())
    if not isinstance(meant, FixSuggestion) and len(cluster.node_labels) <= _MAX_LISTED:
        meant = did_you_mean(key, cluster.node_labels)
    if meant:
        fix += f"; {meant}"
    return fix


def kept_off(pods: Pods, key: str, values: tuple[str, ...]) -> Pods:
    """The pods, excluded from the nodes whose label has one of these values."""
    if not values:
        return pods
    unoccupied = Expression(key, "NotIn", values)
    node_filter = pods.node_filter
    narrower = []
    for term in node_filter.terms:
        if term:
            narrower.append((*term, unoccupied))

    terms = tuple(narrower)
    if not node_filter.terms:
        terms = ((unoccupied,),)
    elif not narrower:  # empty terms match nothing as they are
        terms = node_filter.terms
    return replace(pods, node_filter=replace(node_filter, terms=terms))


def holders(
    cluster: ClusterFacts, level: Level, pod_label: str, kind: str, name_label: str
) -> tuple[Holder, ...]:
    """The owners of the domains in which pods with `pod_label` run; `name_label` names a set."""
    held = []
    for domain, pod in sorted(cluster.holders(pod_label, level.key).items()):
        name = pod.labels.get(name_label, "?")
        held.append(Holder(level, domain, f"{kind}/{name} -n {pod.namespace}"))
    return tuple(held)
