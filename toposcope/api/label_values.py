"""Valid Kubernetes names and label values, how other strings become a value, and their numbers.

Source of the rules: k8s.io/apimachinery/pkg/util/validation (IsValidLabelValue, IsQualifiedName,
IsDNS1123Subdomain).
"""

import hashlib
import re
import string
from typing import Final

MAX_VALUE_CHARACTERS: Final = 63
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_HARMFUL: Final = frozenset(string.printable) - frozenset(
    f"{string.ascii_letters}{string.digits}-_."
)
"""Characters of ASCII that no label value has."""
_UNFIT: Final = re.compile(r"[^-A-Za-z0-9_.]", re.ASCII)
NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_MOST_NAME_CHARACTERS: Final = 253
_HASH_DIGITS: Final = 10
MOST_COUNT: Final = 9999
"""The largest number in a label of ours; as in the admission policy of the agents."""
_COUNT: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


def is_name(text: str) -> bool:
    """Whether the API server accepts `text` as the name of an object: a DNS-1123 subdomain."""
    if len(text) > _MOST_NAME_CHARACTERS:
        return False
    return NAME.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether the API server accepts `text` as a label value (the empty string is one)."""
    if len(text) > MAX_VALUE_CHARACTERS:
        return False
    return _VALUE.fullmatch(text) is not None


def is_harmless_value(text: str) -> bool:
    """Whether `text` is a label value but for letters beyond ASCII and its ends.

    It has no blank, quote, bracket or `=`.
    """
    if len(text) > MAX_VALUE_CHARACTERS or not text.isprintable():
        return False
    return _HARMFUL.isdisjoint(text)


def label_safe(text: str) -> str | None:
    """`text` as a label value by GPU Feature Discovery's rule, or None when nothing is left of it.

    Blanks become `-`, other characters that a label cannot hold are dropped, and the result is cut
    to 63 characters, so that a product reads the same here as in `nvidia.com/gpu.product`.
    """
    without_blanks = re.sub(r"\s", "-", text)
    kept = _UNFIT.sub("", without_blanks)
    value = kept[:MAX_VALUE_CHARACTERS].strip("-_.")
    return value or None


def short_name(name: str) -> str:
    """A node name (up to 253 characters) as a label value.

    A name that is too long becomes its head and a hash.
    """
    if is_label_value(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    shown = digest[:_HASH_DIGITS]
    room = MAX_VALUE_CHARACTERS - _HASH_DIGITS - 1
    head = name[:room].rstrip("-.")
    return f"{head}-{shown}"


def count_of(value: str | None) -> int | None:
    """The number from 0 to `MOST_COUNT` in one of our labels; None for anything else."""
    if not value or _COUNT.fullmatch(value) is None:
        return None
    return int(value)
