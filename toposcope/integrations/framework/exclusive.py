"""Exclusive placement of groups of pods.

Pod affinity and anti-affinity over one node label. The label need not be a level of any topology,
and a domain is the label's value alone. The anti-affinity counts every running pod of another
group, so their domains are occupied.
"""

from dataclasses import replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field, Suggestion
from toposcope.integrations.framework.levels import did_you_mean, did_you_mean_key
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.system import ClusterFacts

_MAX_LISTED: Final = 12


def exclusive_level(
    annotation: Field, cluster: ClusterFacts, rule: str, message: str
) -> Level | None:
    """The node label that the annotation names, as a level; None where there is no annotation.

    `message` is what the system says when the node it looks at lacks the label.
    """
    key = annotation.text()
    if key is None:
        return None
    if cluster.lacks_label(key):
        fix = did_you_mean_key(key, cluster.topologies.values())
        if not isinstance(fix, Suggestion) and len(cluster.node_labels) <= _MAX_LISTED:
            fix = did_you_mean(key, cluster.node_labels)
        annotation.error(
            rule, message, f"no node carries the label {key!r}" + (f"; {fix}" if fix else "")
        )
    levels = (topology.by_key(key) for topology in cluster.topologies.values())
    return next(filter(None, levels), None) or Level(cluster.domain_of.get(key, key), key)


def kept_off(pods: Pods, key: str, values: tuple[str, ...]) -> Pods:
    """The same pods, kept off the nodes whose label has one of these values."""
    if not values:
        return pods
    unoccupied = Expression(key, "NotIn", values)
    terms = pods.node_filter.terms
    terms = tuple((*term, unoccupied) for term in terms if term) or terms or ((unoccupied,),)
    return replace(pods, node_filter=replace(pods.node_filter, terms=terms))
