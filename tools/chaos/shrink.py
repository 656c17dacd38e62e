"""The smallest part of a list that still fails: delta debugging (Zeller's ddmin), with a limit on tries."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def shrink(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A part of `items`, in their order, that fails, and of which no single item can be left out.

    `items` as a whole fails: that is not tried again. `fails` may end the search early by saying no to everything.
    """
    current = tuple(items)
    parts = 2
    while len(current) > 1:
        size = -(-len(current) // parts)
        chunks = [current[i : i + size] for i in range(0, len(current), size)]
        without = [tuple(item for chunk in chunks[:i] + chunks[i + 1 :] for item in chunk) for i in range(len(chunks))]
        smaller = next((part for part in _once(chunks, without) if fails(part)), None)
        if smaller is not None:
            current, parts = smaller, max(2, min(parts, len(smaller)))
        elif parts >= len(current):
            break
        else:
            parts = min(2 * parts, len(current))
    return current


def _once(chunks: list[tuple[T, ...]], without: list[tuple[T, ...]]) -> list[tuple[T, ...]]:
    """Parts, then complements, none twice: of two halves each is the other's complement."""
    return [*chunks, *(part for part in without if part not in chunks)]
