"""Messages of kube-scheduler, which other schedulers send too.

Source: its plugins NodeResourcesFit, NodeAffinity, TaintToleration, NodeUnschedulable,
InterPodAffinity, VolumeBinding.
"""

import re
from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import words_for

_NO_NODE: Final = re.compile(r"0/(\d{1,9}) nodes are available: ")
_MOST_DIGITS: Final = 9
_ROOM: Final = (
    (re.compile(r"Insufficient (\S+)"), "have too little free {0}"),
    (
        re.compile(r"node\(s\) didn't match Pod's node affinity/selector"),
        "do not match the pod's node selector or affinity",
    ),
    (
        re.compile(r"node\(s\) had untolerated taint\(?s?\)? ?\{?([^}]*)\}?"),
        "have taint {0}, which the pod does not tolerate",
    ),
    (re.compile(r"node\(s\) were unschedulable"), "are cordoned"),
    (re.compile(r"node\(s\) were not ready"), "are not Ready"),
    (re.compile(r"Too many pods"), "have reached their pod limit"),
)
"""Reasons after the number of nodes, with their meanings, that the step `room` explains."""
_OTHERS: Final = (
    (
        re.compile(r"node\(s\) didn't match pod anti-affinity rules"),
        "run pods that this one must avoid (anti-affinity)",
    ),
    (
        re.compile(r"node\(s\) didn't match pod affinity rules"),
        "do not run the pods that this one must be near (affinity)",
    ),
    (
        re.compile(r"node\(s\) didn't match pod topology spread constraints.*"),
        "would break the pod's spread constraints",
    ),
    (
        re.compile(r"node\(s\) had volume node affinity conflict"),
        "cannot reach a volume of the pod",
    ),
    (
        re.compile(r"node\(s\) didn't satisfy existing pods anti-affinity rules"),
        "run pods that avoid this one (their anti-affinity)",
    ),
    (
        re.compile(r"node\(s\) didn't have free ports for the requested pod ports"),
        "run a pod with the same host port",
    ),
    (
        re.compile(r"cannot allocate all claims"),
        "cannot satisfy the pod's resource claims (DRA devices or ComputeDomain channels)",
    ),
)
"""Reasons that it does not explain."""
_KNOWN: Final = (*_ROOM, *_OTHERS)


def meaning_of_no_node(text: str) -> str:
    """What `0/30 nodes are available: ...` means; empty if no reason in it is known."""
    match = _NO_NODE.match(text)
    if not match:
        return ""
    reported = text[match.end() :]
    reasons, _, _ = reported.partition(" preemption: ")
    meanings: list[str] = []
    for part in _parts(reasons):
        meaning = _meaning(part)
        if meaning:
            meanings.append(meaning)
    if not meanings:
        return ""
    joined = ", ".join(meanings)
    return f"of {match[1]} nodes, {joined}"


def steps_about_room(text: str) -> frozenset[str]:
    """The step `room` for `0/30 nodes are available: ...` if it says more of each reason."""
    match = _NO_NODE.match(text)
    if not match:
        return frozenset()
    reasons, _, _ = text[match.end() :].partition(" preemption: ")
    counted = []
    for part in _parts(reasons):
        reason = _reason(part)
        if reason:  # what has no number is about preemption
            counted.append(words_for(reason, _ROOM))
    if counted and all(counted):
        return frozenset({"room"})
    return frozenset()


def _meaning(part: str) -> str:
    """What `10 node(s) were unschedulable` means; empty if the reason is unknown."""
    count, _, _ = part.partition(" ")
    words = words_for(_reason(part), _KNOWN)
    if not words:
        return ""
    return f"{count} {words}"


def _reason(part: str) -> str:
    """The text after the number of nodes; empty without a number."""
    count, _, reason = part.partition(" ")
    is_number = count.isascii() and count.isdecimal()
    if not is_number or len(count) > _MOST_DIGITS:
        return ""
    return reason.strip(" .")


def _parts(text: str) -> Iterator[str]:
    """The parts of a list, which end at a comma before a number or at a full stop.

    Not within the braces of a taint.
    """
    begin = 0
    in_braces = False
    for end, character in enumerate(text):
        if character in "{}":
            in_braces = character == "{"
        following = text[end + 1 : end + 3]
        if in_braces or not following.startswith(" "):
            continue
        ends_list = character == "," and following[1:].isdecimal()
        if character == "." or ends_list:
            yield text[begin:end]
            begin = end + 2
    yield text[begin:]
