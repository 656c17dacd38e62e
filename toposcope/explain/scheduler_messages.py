"""Schedulers' messages in plain words.

Sources: kube-scheduler's plugins (NodeResourcesFit, NodeAffinity, TaintToleration, NodeUnschedulable, InterPodAffinity,
VolumeBinding), KAI 0.17, Kueue 0.19, Grove 0.1.0-alpha.12, Dynamo 1.4, LeaderWorkerSet.

What schedulers and operators said about the workload, with what it means.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.features.grove import CONDITION as GROVE_CONDITION
from toposcope.explain.kinds import CLIQUE_SET, DEPLOYMENT_GRAPH, KUEUE_WORKLOAD, POD_GROUP
from toposcope.explain.object_store import Object, Ref, condition, conditions

_NONE_OF: Final = re.compile(r"^0/(\d+) nodes are available: (.*)$", re.DOTALL)
_REASON: Final = re.compile(r"(\d+) ([^,]*(?:\{[^}]*\}[^,]*)?)(?:, (?=\d)|\. |\.$|$)")

_NODE_REASONS: Final = (
    (re.compile(r"Insufficient (\S+)"), "have too little free {0}"),
    (
        re.compile(r"node\(s\) didn't match Pod's node affinity/selector"),
        "are not those that the pod's node selector or affinity asks for",
    ),
    (
        re.compile(r"node\(s\) had untolerated taint\(?s?\)? ?\{?([^}]*)\}?"),
        "have taint {0}, which the pod does not tolerate",
    ),
    (re.compile(r"node\(s\) were unschedulable"), "are cordoned"),
    (re.compile(r"node\(s\) were not ready"), "are not Ready"),
    (
        re.compile(r"node\(s\) didn't match pod anti-affinity rules"),
        "hold pods that this one must not be near (anti-affinity)",
    ),
    (
        re.compile(r"node\(s\) didn't match pod affinity rules"),
        "do not hold the pods that this one must be near (affinity)",
    ),
    (
        re.compile(r"node\(s\) didn't match pod topology spread constraints.*"),
        "would break the pod's spread constraints",
    ),
    (re.compile(r"node\(s\) had volume node affinity conflict"), "cannot reach a volume of the pod"),
    (re.compile(r"Too many pods"), "run as many pods as they may"),
)
"""kube-scheduler's reasons, after the number of nodes."""

_WHOLE: Final = (
    (
        re.compile(r"Requested topology (\S+) does not exist"),
        "KAI has no Topology {0}; kubectl get topologies.kai.scheduler lists those that it has",
    ),
    (
        re.compile(r"topology constraint error: (.+?) specified '([^']*)' .*topology tree '([^']*)'"),
        "level {1} is none of Topology {2}: KAI takes label keys, not names such as rack",
    ),
    (
        re.compile(r'there is no Topology "([^"]*)" for TAS flavor "([^"]*)"'),
        "ResourceFlavor {1} names Topology {0}, which is not there; the ClusterQueue takes nothing until it is",
    ),
    (re.compile(r"no requested topology level: (\S+)"), "no level {0} in the topology of the flavor"),
    (
        re.compile(r'Flavor "?([^" ]+)"? does not contain the requested level'),
        "the topology of ResourceFlavor {0} does not have the level that is asked for",
    ),
    (
        re.compile(r"no topology domains at level: (\S+)"),
        "no Ready, schedulable node carries all labels of the topology down to {0}",
    ),
    (
        re.compile(r'topology "([^"]*)" doesn\'t allow to fit any of (\d+) pod'),
        "no domain of topology {0} has room for one of the {1} pods",
    ),
    (
        re.compile(r'topology "([^"]*)" allows to fit only (\d+) out of (\d+) pod'),
        "the best domain of topology {0} has room for {1} of the {2} pods, and they have to be together",
    ),
    (
        re.compile(r"insufficient unused quota for (\S+) in flavor ([^,\s]+), (\S+) more needed"),
        "the queue's quota of {0} in flavor {1} is used up ({2} more needed); room on the nodes is another matter",
    ),
    (
        re.compile(r"Topology constraints are defined but Topology Aware Scheduling is disabled"),
        "Grove ignores the constraints: its topology-aware scheduling is switched off",
    ),
    (
        re.compile(r"topology constraints are not allowed when Topology Aware Scheduling is disabled"),
        "Grove's webhook refuses the PodCliqueSet: its topology-aware scheduling is switched off",
    ),
    (
        re.compile(r'Node "([^"]*)" does not have required topology label "([^"]*)"'),
        "node {0} lacks the label {1}, so its pods do not learn from Dynamo where they are; label it",
    ),
    (
        re.compile(r"KAI Topology levels differ from ClusterTopologyBinding levels"),
        "KAI goes by other levels than the binding says; whoever wrote KAI's Topology has to make it anew",
    ),
    (
        re.compile(r"ClusterTopology(?:Binding)? resource not found"),
        "Grove does not find the topology that the PodCliqueSet names",
    ),
    (
        re.compile(r"Unavailable topology domains: \[([^\]]*)\]"),
        "the ClusterTopologyBinding has no level {0}, or no longer; Grove leaves the constraint out of new PodGangs",
    ),
    (
        re.compile(r"node does not have topology label: ?(\S*)"),
        "the leader's node lacks the label that exclusive placement goes by",
    ),
)


def meaning(text: str) -> str:
    """What a message means; empty where nothing is known of it."""
    for pattern, words in _WHOLE:
        if match := pattern.search(text):
            return words.format(*match.groups())
    if match := _NONE_OF.match(text):
        return _of_nodes(int(match[1]), match[2])
    return ""


def _of_nodes(total: int, reasons: str) -> str:
    found = []
    for count, reason in _REASON.findall(reasons.partition(" preemption: ")[0]):
        for pattern, words in _NODE_REASONS:
            if match := pattern.fullmatch(reason.strip(" .")):
                found.append(f"{count} {words.format(*match.groups())}")
                break
    return f"of {total} nodes {', '.join(found)}" if found else ""


_DYNAMO_CONDITION: Final = "TopologyLevelsAvailable"
_KUEUE_CONDITIONS: Final = ("QuotaReserved", "Admitted", "Evicted", "Preempted")
_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """One message, who it is about, and what it means in plain words (empty: it speaks for itself)."""

    about: str
    text: str
    meaning: str


def messages(context: Context) -> Iterator[SchedulerMessage]:
    """Conditions of what schedulers made of it, then what they said of its pods; equal words once."""
    found = list(_conditions(context))
    texts = Counter(pod.waiting for pod in context.waiting if pod.waiting)
    for text, count in texts.most_common(_MOST):
        first = next(pod for pod in context.waiting if pod.waiting == text)
        who = f"pod/{first.name}" + (f" and {count - 1} more" if count > 1 else "")
        about = f"{first.scheduler or 'the scheduler'} on {who}"
        found.append(SchedulerMessage(about, text, meaning(text)))
    yield from dict.fromkeys(found)


def _conditions(context: Context) -> Iterator[SchedulerMessage]:
    for ref, document in context.members(DEPLOYMENT_GRAPH):
        yield from _one(ref, document, _DYNAMO_CONDITION, good="True", meant=_dynamo_means(context))
    for ref, document in context.members(CLIQUE_SET):
        yield from _one(ref, document, GROVE_CONDITION, good="False")
    for ref, document in context.members(POD_GROUP):
        for each in (*conditions(document, "schedulingConditions"), *conditions(document)):
            if each.message and each.status != "False":
                yield SchedulerMessage(ref.handle, each.message, meaning(each.message))
    for ref, document in context.members(KUEUE_WORKLOAD):
        for each in conditions(document):
            waits = each.type in _KUEUE_CONDITIONS[:2] and each.status == "False"
            lost = each.type in _KUEUE_CONDITIONS[2:] and each.status == "True"
            if each.message and (waits or lost):
                text = f"{each.type}={each.status} ({each.reason}): {each.message}"
                yield SchedulerMessage(ref.handle, text, meaning(each.message))


def _one(ref: Ref, document: Object, kind: str, *, good: str, meant: str = "") -> Iterator[SchedulerMessage]:
    """A condition where it is bad, or where it means something else than it says."""
    said = condition(document, kind)
    if said and (said.status != good or meant):
        text = f"{kind}={said.status} ({said.reason}): {said.message}"
        yield SchedulerMessage(ref.handle, text, meant if said.status == good else meaning(said.message))


def _dynamo_means(context: Context) -> str:
    """Dynamo takes Grove's Unknown for good news: its condition says True while Grove does not find the topology."""
    for _, document in context.members(CLIQUE_SET):
        said = condition(document, GROVE_CONDITION)
        if said and said.status == "Unknown":
            return f"not to be relied on: Grove says Unknown ({said.reason}), which Dynamo takes for True"
    return ""
