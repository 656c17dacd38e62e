"""Messages of kube-scheduler, which other schedulers send too.

Source: its plugins NodeResourcesFit, NodeAffinity, TaintToleration, NodeUnschedulable,
InterPodAffinity, VolumeBinding.
"""

import re
from collections.abc import Iterator
from typing import Final

_NO_NODE: Final = re.compile(r"0/(\d{1,9}) nodes are available: ")
_MOST_DIGITS: Final = 9
_KNOWN: Final = (
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
    (re.compile(r"Too many pods"), "have reached their pod limit"),
)
"""What follows the number of nodes, to its meaning."""


def meaning_of_no_node(text: str) -> str:
    """What `0/30 nodes are available: ...` means; empty where no reason in it is known."""
    match = _NO_NODE.match(text)
    if not match:
        return ""
    reasons = text[match.end() :].partition(" preemption: ")[0]
    meanings = list(filter(None, map(_meaning, _parts(reasons))))
    return f"of {match[1]} nodes, {', '.join(meanings)}" if meanings else ""


def _meaning(part: str) -> str:
    """What `10 node(s) were unschedulable` means; empty where the reason is not known."""
    count, _, reason = part.partition(" ")
    if not (count.isascii() and count.isdecimal() and len(count) <= _MOST_DIGITS):
        return ""
    for pattern, words in _KNOWN:
        if known := pattern.fullmatch(reason.strip(" .")):
            return f"{count} {words.format(*known.groups())}"
    return ""


def _parts(text: str) -> Iterator[str]:
    """The parts of a list that a comma before a number, or a full stop, ends.

    Not within the braces of a taint.
    """
    begin, within = 0, False
    for at, character in enumerate(text):
        if character in "{}":
            within = character == "{"
        if within or text[at + 1 : at + 2] != " ":
            continue
        if character == "." or (character == "," and text[at + 2 : at + 3].isdecimal()):
            yield text[begin:at]
            begin = at + 2
    yield text[begin:]
