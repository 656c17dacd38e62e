"""Valid Kubernetes names and label values, how other strings become a value, and their numbers.

Source of the rules: k8s.io/apimachinery/pkg/util/validation (IsValidLabelValue, IsQualifiedName,
IsDNS1123Subdomain).
"""

import hashlib
import re
import string
from typing import Final

MAX_VALUE: Final = 63
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_HARMFUL: Final = frozenset(string.printable) - frozenset(
    f"{string.ascii_letters}{string.digits}-_."
)
"""Characters of ASCII that no label value has."""
_UNFIT: Final = re.compile(r"[^-A-Za-z0-9_.]", re.ASCII)
NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_LONGEST_NAME: Final = 253
_HASH_DIGITS: Final = 10
MOST_COUNT: Final = 9999
"""The largest number in a label of ours; as in the admission policy of the agents."""


def is_name(text: str) -> bool:
    """Whether the API server accepts `text` as the name of an object: a DNS-1123 subdomain."""
    return len(text) <= _LONGEST_NAME and NAME.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether the API server accepts `text` as a label value (the empty string is one)."""
    return len(text) <= MAX_VALUE and _VALUE.fullmatch(text) is not None


def is_harmless_value(text: str) -> bool:
    """Whether `text` is a label value but for letters beyond ASCII and its ends.

    No blank, quote, bracket or `=`.
    """
    return len(text) <= MAX_VALUE and text.isprintable() and _HARMFUL.isdisjoint(text)


def label_safe(text: str) -> str | None:
    """`text` as a label value by GPU Feature Discovery's rule, or None when nothing is left of it.

    Blanks become `-`, other characters that a label cannot hold are dropped, and the result is cut
    to 63 characters, so that a product reads the same here as in `nvidia.com/gpu.product`.
    """
    kept = _UNFIT.sub("", re.sub(r"\s", "-", text))
    return kept[:MAX_VALUE].strip("-_.") or None


def short_name(name: str) -> str:
    """A node name (up to 253 characters) as a label value.

    Itself, or its head and a hash if that is too long.
    """
    if is_label_value(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
    head = name[: MAX_VALUE - _HASH_DIGITS - 1].rstrip("-.")
    return f"{head}-{digest}"


def count_of(value: str | None) -> int | None:
    """The number in one of our labels.

    None where there is none, or not one of 0 to `MOST_COUNT` in decimal digits.
    """
    if not value or len(value) > len(str(MOST_COUNT)):
        return None
    if not value.isascii() or not value.isdigit():
        return None
    return int(value)
