"""Whether the sentence of a refusal contradicts itself: one need that is more than what there is, in one unit."""

import re

_NUMBER = r"([\d.]+)"
_ONE_NEED = re.compile(
    rf"needs (?:room for )?{_NUMBER} (\S+).*?, (?:largest has|the nodes it may use have) "
    rf"(?:room for )?(?:none|{_NUMBER}(?: (\w+))?)(?: \(\S+\))?$"
)
_POD = re.compile(
    rf"needs {_NUMBER} (\S+).*, and no node that it may use has "
    rf"(?:any|more than {_NUMBER}(?: ([KMG]iB))?)(?: free)?(?: \(\S+\))?$"
)
_COPIES = re.compile(rf"{_NUMBER} \w+ of .* need .*; there (?:is room for|are) {_NUMBER}$")
_IN_ORDER = re.compile(
    rf"there is room for {_NUMBER} of {_NUMBER} (?:pods?|slices?)$|no domain has room for it with its leader$"
)
_NOT_ONE_RESOURCE = re.compile(r"too (?:few|little) [^:]+$|but too fragmented for its pods to fit at once$")


def contradiction(sentence: str) -> str:
    """The sentence, where its numbers fit or it is of no form that is known; empty where it says what lacks."""
    if match := _ONE_NEED.search(sentence) or _POD.search(sentence):
        need, unit, there, other = match.groups()
        same_unit = other in (None, unit)
        return "" if same_unit and float(need) > float(there or 0) else sentence
    if match := _COPIES.search(sentence):
        return "" if float(match[1]) > float(match[2]) else sentence
    if match := _IN_ORDER.search(sentence):
        return "" if match[1] is None or float(match[1]) < float(match[2]) else sentence
    return "" if _NOT_ONE_RESOURCE.search(sentence) else sentence
