"""KAI's messages about room, in plain words.

Source: KAI 0.17.0 (pkg/scheduler/actions/common/allocate.go, api/common_info/{job,pod}_errors.go,
plugins/topology/job_filtering.go). A message joins what failed for each group and on how many
nodes, one a line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.features import words_for

_DOMAINS: Final = re.compile(
    r"node-group (\S+) can allocate only (\d{1,9}) of (\d{1,9}) required pods"
)
_REQUIREMENT: Final = re.compile(
    r"topology (\S+), requirement (\S*) couldn't be satisfied for job <[^<>]*>"
    r"(?:, subgroup (\S+?))?(?=[:.\s]|$)"
)
_WHOLE: Final = re.compile(r"not enough resources in (the cluster|\S+) to allocate the job")


@dataclass(frozen=True, slots=True)
class _NoNode:
    """KAI's message about pods without a node."""

    pattern: re.Pattern[str]
    words: str
    advice: str = ""
    """What to do if the nodes are too small or too full."""


_PODS: Final = (
    _NoNode(
        re.compile(
            r"Resources were found for (\d{1,9}) pods "
            r"while (\d{1,9}) are required for gang scheduling"
        ),
        "KAI finds nodes for {0} of the {1} pods that start together",
        "free nodes, or lower minMember",
    ),
    _NoNode(
        re.compile(
            r"Resources were found for (\d{1,9}) pods from all sub-groups "
            r"while sub-group (\S+) requires (\d{1,9}) pods"
        ),
        "sub-group {1} needs {2} pods at once, but KAI finds nodes for only {0} pods in total",
        "free nodes, or lower its minMember",
    ),
    _NoNode(
        re.compile(r"Resources were not found for pod (\S+) due to"),
        "no node fits pod {0}",
    ),
)
_NODES: Final = re.compile(r"no nodes with enough resources were found: (.*)", re.DOTALL)
_NOT_READY: Final = "Job is not ready for scheduling."
_WAITING: Final = re.compile(
    r"Waiting for (\d{1,9}) pods(?: for SubGroup (\S+?))?, currently (\d{1,9}) exist"
)
_ROOM: Final = (
    (re.compile(r"node is unschedulable"), "cordoned"),
    (re.compile(r"node has NotReady condition"), "not Ready"),
    (re.compile(r"node has (\S+) condition"), "with condition {0}"),
    (
        re.compile(r"node\(s\) had untolerated taint\(s\)"),
        "with a taint that the pod does not tolerate",
    ),
    (
        re.compile(r"node\(s\) didn't match Pod's node affinity/selector"),
        "that its node selector or affinity excludes",
    ),
    (re.compile(r"node\(s\) didn't have enough resources: pods"), "at their pod limit"),
    (re.compile(r"node\(s\) didn't have enough resources: (.+)"), "with too little free {0}"),
    (re.compile(r"node\(s\) didn't have enough of mig profile: (.+)"), "with too little free {0}"),
)
"""Reasons after the number of nodes, with their meanings, that the step `room` explains."""
_CLAIMS: Final = (
    re.compile(r"(?:node\(s\) )?cannot allocate all claims"),
    (
        "where the pods' resource claims (DRA devices or ComputeDomain channels, not GPUs of a "
        "device plugin) cannot be allocated: kubectl get resourceclaims, and the logs of their "
        "DRA driver"
    ),
)
_PORTS: Final = (
    re.compile(r"node\(s\) didn't have free ports for the requested pod ports"),
    "where a host port of the pod is taken",
)
_REASONS: Final = (*_ROOM, _CLAIMS, _PORTS)


def meaning_of_no_room(text: str) -> str:
    """What KAI's message about room means and what to do; empty if it is not about room."""
    sentences = [_missing_pods(text), _no_domain(text)]
    is_room = _is_about_room(text)
    for pattern in _PODS:
        match = pattern.pattern.search(text)
        if match:
            meaning = pattern.words.format(*match.groups())
            if pattern.advice and is_room:
                meaning += f": {pattern.advice}"
            sentences.append(meaning)
    sentences.append(_nodes(text))
    return "; ".join(filter(None, sentences))


def steps_about_room(text: str) -> frozenset[str]:
    """The steps of `explain` that say more about a message about room; none for other messages."""
    if _NOT_READY in text or not meaning_of_no_room(text) or not _is_about_room(text):
        return frozenset()
    return frozenset({"labels", "availability", "room"})


def _is_about_room(text: str) -> bool:
    """Whether the step `room` covers each reason why nodes are excluded."""
    nodes = _NODES.search(text)
    if nodes is None:
        return True
    for line in nodes[1].split("\n"):
        _, _, reason = line.strip(" .").partition(" ")
        if reason and not words_for(reason, _ROOM):
            return False
    return True


def _missing_pods(text: str) -> str:
    waits = _WAITING.search(text.partition(_NOT_READY)[2])
    if waits is None:
        return ""
    group = _group_of(waits[2])
    return (
        f"{group} needs {waits[1]} pods and has {waits[3]}: create the missing pods, or lower "
        "minMember"
    )


def _group_of(sub_group: str | None) -> str:
    if sub_group:
        return f"sub-group {sub_group}"
    return "the gang"


def _no_domain(text: str) -> str:
    """The meaning of "no domain has room", with the best domain that was tried."""
    requirement = _REQUIREMENT.search(text)
    domains = _domains_of(text)
    if domains:
        required = requirement[2] if requirement else ""
        return _best_domain(domains, required)
    if requirement is None:
        return ""

    match = _WHOLE.search(text)
    if match:
        group = _group_of(requirement[3])
        return (
            f"{match[1]} has too little room for {group} on any of its nodes (KAI counts each pod "
            "as the largest): free nodes, or request fewer pods"
        )
    level = requirement[2] or f"topology {requirement[1]}"
    return f"KAI finds no domain of {level} for it"


@dataclass(frozen=True, slots=True, order=True)
class _Domain:
    """How many of the wanted pods fit in a domain."""

    takes: int
    wanted: int


def _domains_of(text: str) -> dict[str, _Domain]:
    """The domains that the message counts, by name."""
    domains = {}
    for name, takes, wanted in _DOMAINS.findall(text):
        domains[name] = _Domain(int(takes), int(wanted))
    return domains


def _best_domain(domains: Mapping[str, _Domain], level: str) -> str:
    name = max(domains, key=domains.__getitem__)
    best = domains[name]
    none = "no domain"
    if level:
        none = f"no domain of {level}"
    pods = "a pod"
    if best.wanted != 1:
        pods = f"{best.wanted} pods at once, each counted as the largest"
    return (
        f"{none} takes {pods}: the best of {len(domains)}, {name}, takes {best.takes}; "
        "free nodes in one of them, or request fewer pods or a broader level"
    )


def _nodes(text: str) -> str:
    """How many nodes are excluded, by reason."""
    nodes = _NODES.search(text)
    if nodes is None:
        return ""
    reasons: list[str] = []
    for line in nodes[1].split("\n"):
        reason = _reason(line)
        if reason:
            reasons.append(reason)
    if not reasons:
        return ""
    return f"nodes: {', '.join(reasons)}"


def _reason(line: str) -> str:
    """One line of the count of nodes by reason; empty if the reason is unknown."""
    count, _, reason = line.strip(" .").partition(" ")
    if not count.isdecimal():
        return ""
    words = words_for(reason, _REASONS)
    if not words:
        return ""
    return f"{count} {words}"
