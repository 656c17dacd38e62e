"""Exclusive placement, as LeaderWorkerSet and JobSet have it: pod affinity and anti-affinity over one node label.

The label need not be a level of any topology, and a domain is the label's value alone. Pods of other groups that run
already keep theirs: the anti-affinity counts every pod with the label that marks such groups.
"""

from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import key_fix, near
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.topology.levels import Level

JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
SUBGROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/subgroup-key"
MARKS: Final = (JOB_KEY, GROUP_KEY, SUBGROUP_KEY)
"""The pod labels that mark the groups."""


def exclusive_level(term: Field, known: ClusterFacts, rule: str, message: str) -> Level | None:
    """The node label that an annotation names, as a level; None where there is no annotation.

    `message` is what the system says when the node it looks at lacks the label.
    """
    key = term.text()
    if key is None:
        return None
    if known.labels and key not in known.labels:
        fix = key_fix(key, known.ladders.values())
        if not fix.startswith(("did you mean", "label keys")):
            fix = near(key, known.labels) if len(known.labels) <= _FEW else fix
        term.error(rule, message, f"no node carries the label {key!r}" + (f"; {fix}" if fix else ""))
    levels = (level for ladder in known.ladders.values() for level in ladder.levels if level.key == key)
    return next(levels, None) or Level(known.domain_of.get(key, key), key)


_FEW: Final = 12


def avoiding(pods: Pods, key: str, values: tuple[str, ...]) -> Pods:
    """The same pods, kept off the nodes whose label has one of these values."""
    if not values:
        return pods
    off = Expression(key, "NotIn", values)
    terms = tuple((*term, off) for term in pods.choice.terms if term) or pods.choice.terms or ((off,),)
    return replace(pods, choice=replace(pods.choice, terms=terms))
