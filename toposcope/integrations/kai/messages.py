"""KAI's messages about room, in plain words.

Source: KAI 0.17.0 (pkg/scheduler/actions/common/allocate.go, api/common_info/{job,pod}_errors.go,
plugins/topology/job_filtering.go). A message joins what failed for each group and on how many
nodes, one a line.
"""

import re
from collections.abc import Iterator
from typing import Final

_DOMAINS: Final = re.compile(
    r"node-group (\S+) can allocate only (\d{1,9}) of (\d{1,9}) required pods"
)
_REQUIREMENT: Final = re.compile(
    r"topology (\S+), requirement (\S*) couldn't be satisfied for job <[^<>]*>"
    r"(?:, subgroup (\S+?))?(?=[:.\s]|$)"
)
_WHOLE: Final = re.compile(r"not enough resources in (the cluster|\S+) to allocate the job")
_GANG: Final = re.compile(
    r"Resources were found for (\d{1,9}) pods while (\d{1,9}) are required for gang scheduling"
)
_SUB_GROUP: Final = re.compile(
    r"Resources were found for (\d{1,9}) pods from all sub-groups "
    r"while sub-group (\S+) requires (\d{1,9}) pods"
)
_POD: Final = re.compile(r"Resources were not found for pod (\S+) due to")
_NODES: Final = re.compile(r"no nodes with enough resources were found: (.*)", re.DOTALL)
_NOT_READY: Final = "Job is not ready for scheduling."
_WAITING: Final = re.compile(
    r"Waiting for (\d{1,9}) pods(?: for SubGroup (\S+?))?, currently (\d{1,9}) exist"
)
_REASONS: Final = (
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
"""What follows the number of nodes, to its meaning."""


def meaning_of_no_room(text: str) -> str:
    """What KAI's message about room means and what to do.

    Empty where it says nothing about room.
    """
    return "; ".join(_sentences(text))


def _sentences(text: str) -> Iterator[str]:
    if waits := _WAITING.search(text.partition(_NOT_READY)[2]):
        group = f"sub-group {waits[2]}" if waits[2] else "the gang"
        yield (
            f"{group} needs {waits[1]} pods and has {waits[3]}: create the others, "
            "or lower minMember"
        )
    domains = {name: (int(takes), int(wanted)) for name, takes, wanted in _DOMAINS.findall(text)}
    requirement = _REQUIREMENT.search(text)
    if domains:
        best = max(domains, key=lambda name: domains[name])
        takes, wanted = domains[best]
        level = f"no domain of {requirement[2]}" if requirement and requirement[2] else "no domain"
        pods = "a pod" if wanted == 1 else f"{wanted} pods at once, each counted as the largest"
        yield (
            f"{level} takes {pods}: the best of {len(domains)}, {best}, takes {takes}; "
            "free nodes in one of them, ask "
            "for fewer pods or for a broader level"
        )
    elif requirement and (whole := _WHOLE.search(text)):
        group = f"sub-group {requirement[3]}" if requirement[3] else "the gang"
        yield (
            f"{whole[1]} has too little room for {group}, "
            "wherever its pods go (KAI counts each as the largest): free "
            "nodes, or ask for fewer pods"
        )
    elif requirement:
        yield f"KAI finds no domain of {requirement[2] or 'topology ' + requirement[1]} for it"
    if gang := _GANG.search(text):
        yield (
            f"KAI finds nodes for {gang[1]} of the {gang[2]} pods that start together: "
            "free nodes, or lower minMember"
        )
    if below := _SUB_GROUP.search(text):
        yield (
            f"sub-group {below[2]} needs {below[3]} pods at once, "
            f"and KAI finds nodes for {below[1]} pods in all until "
            "then: free nodes, or lower its minMember"
        )
    if pod := _POD.search(text):
        yield f"no node takes pod {pod[1]}"
    if nodes := _NODES.search(text):
        reasons = list(filter(None, map(_reason, nodes[1].split("\n"))))
        if reasons:
            yield f"nodes: {', '.join(reasons)}"


def _reason(line: str) -> str:
    """One line of the count of nodes by reason; empty where it is not one that is known."""
    count, _, reason = line.strip(" .").partition(" ")
    for pattern, words in _REASONS:
        if count.isdecimal() and (match := pattern.fullmatch(reason)):
            return f"{count} {words.format(*match.groups())}"
    return ""
