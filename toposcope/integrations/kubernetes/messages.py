"""Messages of kube-scheduler, which other schedulers send too.

Source: its plugins NodeResourcesFit, NodeAffinity, TaintToleration, NodeUnschedulable, InterPodAffinity, VolumeBinding.
"""

import re
from typing import Final

_NO_NODE: Final = re.compile(r"^0/(\d+) nodes are available: (.*)$", re.DOTALL)
_REASON: Final = re.compile(r"(\d+) ([^,]*(?:\{[^}]*\}[^,]*)?)(?:, (?=\d)|\. |\.$|$)")
_REASONS: Final = {
    r"Insufficient (\S+)": "have too little free {0}",
    r"node\(s\) didn't match Pod's node affinity/selector": "do not match the pod's node selector or affinity",
    r"node\(s\) had untolerated taint\(?s?\)? ?\{?([^}]*)\}?": "have taint {0}, which the pod does not tolerate",
    r"node\(s\) were unschedulable": "are cordoned",
    r"node\(s\) were not ready": "are not Ready",
    r"node\(s\) didn't match pod anti-affinity rules": "run pods that this one must avoid (anti-affinity)",
    r"node\(s\) didn't match pod affinity rules": "do not run the pods that this one must be near (affinity)",
    r"node\(s\) didn't match pod topology spread constraints.*": "would break the pod's spread constraints",
    r"node\(s\) had volume node affinity conflict": "cannot reach a volume of the pod",
    r"Too many pods": "have reached their pod limit",
}
"""What follows the number of nodes, to its meaning."""


def meaning_of_no_node(text: str) -> str:
    """What `0/30 nodes are available: ...` means; empty where no reason in it is known."""
    match = _NO_NODE.match(text)
    if not match:
        return ""
    meanings = []
    for count, reason in _REASON.findall(match[2].partition(" preemption: ")[0]):
        for pattern, words in _REASONS.items():
            if known := re.fullmatch(pattern, reason.strip(" .")):
                meanings.append(f"{count} {words.format(*known.groups())}")
                break
    return f"of {match[1]} nodes, {', '.join(meanings)}" if meanings else ""
