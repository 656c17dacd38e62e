"""Any string on its way to a label value: products, node names, chassis serials."""

from typing import Any, Final

from hypothesis import strategies as st

from tools.fuzz.material import strings
from tools.fuzz.subject import Outcome, Subject, held
from toposcope.topology.label_values import is_label_value, label_safe, short_name

_NODE_NAME: Final = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,4}", fullmatch=True
)
"""What the API server takes for the name of a Node (RFC 1123), but for its length."""


_HEAD: Final = "a" * 50
"""So long that two names which begin so are told apart by what is made of the rest only."""
_NAMES: Final = st.one_of(
    st.tuples(_NODE_NAME, _NODE_NAME),
    st.tuples(_NODE_NAME.map(_HEAD.__add__), _NODE_NAME.map(_HEAD.__add__)),
)


def attempt(case: Any) -> Outcome:
    """Every value made is one that the API server takes; two node names keep two values."""
    text, (first, second) = case
    safe = label_safe(text)
    held(safe is None or (safe and is_label_value(safe)), f"{safe!r} of {text!r} is no label value")
    held(safe is None or label_safe(safe) == safe, f"{safe!r} does not stay itself")
    for name in (first, second):
        held(is_label_value(short_name(name)), f"{short_name(name)!r} of node {name!r} is no label value")
    held(first == second or short_name(first) != short_name(second), f"{first!r} and {second!r} become one value")
    return "taken" if safe else "refused"


LABELS: Final = Subject(
    "labels",
    "what is written is a legal value, and two nodes never share one",
    st.tuples(strings("NVIDIA H200", "rack 7"), _NAMES),
    attempt,
)
