"""The kernel's list format for CPUs and NUMA nodes: `0-3,8,16-31:2/8`.

Source: Documentation/admin-guide/kernel-parameters.rst ("Number of CPUs") and lib/bitmap.c,
bitmap_parselist.
"""

from collections.abc import Iterable, Iterator
from typing import Final

_MAX_NUMBERS: Final = 1 << 20
"""No kernel has this many CPUs: a larger number is a broken file and must not become a huge set.

It also limits the sum over all parts of a list, as hundreds of full ranges fit into a page.
"""


def parse_list(text: str) -> frozenset[int]:
    """The numbers in a kernel list; an empty list is legal.

    Raises ValueError with the offending part.
    """
    numbers: set[int] = set()
    spanned = 0
    shown = repr(text.strip()[:80])
    for piece in text.split(","):
        part = piece.strip()
        if not part:
            continue
        try:
            span, listed = _parse_part(part)
        except ValueError as error:
            raise ValueError(f"not a kernel list: {shown}, at {part[:40]!r}") from error
        spanned += len(span)
        if spanned > _MAX_NUMBERS:
            raise ValueError(f"not a kernel list: {shown} spans more than {_MAX_NUMBERS:,} numbers")
        numbers.update(listed)
    return frozenset(numbers)


def kernel_list(text: str) -> frozenset[int]:
    """The numbers in a list that the kernel wrote.

    Empty if malformed: one broken file must not cost all other facts.
    """
    try:
        return parse_list(text)
    except ValueError:
        return frozenset()


def _parse_part(part: str) -> tuple[range, Iterable[int]]:
    """The numbers that a part spans, and those that are in the list. Raises ValueError."""
    span, _, stride = part.partition(":")
    low, dash, high = span.partition("-")
    first = int(low)
    last = int(high) if dash else first
    if not 0 <= first <= last < _MAX_NUMBERS:
        raise ValueError
    spanned = range(first, last + 1)
    if not stride:
        return spanned, spanned
    # `a-b:used/group` takes the first `used` numbers of every `group`, `a-b:group` one of them.
    used, slash, group = stride.partition("/")
    if slash:
        size = int(used)
        step = int(group)
    else:
        size = 1
        step = int(used)
    if not 0 < size <= step:
        raise ValueError
    return spanned, _first_of_every(spanned, size, step)


def _first_of_every(numbers: range, size: int, step: int) -> Iterator[int]:
    """The first `size` numbers of every `step`."""
    for place, number in enumerate(numbers):
        if place % step < size:
            yield number


def format_list(numbers: Iterable[int]) -> str:
    """`numbers` in the kernel's list format, ranges merged: {0, 1, 2, 8} is `0-2,8`."""
    spans: list[range] = []
    for number in sorted(numbers):
        if spans and number == spans[-1].stop:
            span = spans.pop()
            spans.append(range(span.start, number + 1))
        else:
            spans.append(range(number, number + 1))
    parts = []
    for span in spans:
        if len(span) == 1:
            parts.append(f"{span.start}")
        else:
            parts.append(f"{span.start}-{span[-1]}")
    return ",".join(parts)
