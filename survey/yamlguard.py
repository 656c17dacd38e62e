"""Keeps from the YAML library what it cannot survive: text nested without end, and aliases that multiply.

The library in C overflows the stack on the first. The second loads in no time, as parts that are shared, and is a
billion values for whoever walks through them. Texts that kubectl and people write show at a glance that they are
neither, and are not looked at twice.
"""

import re
from typing import Any, Final

import yaml

DEEPEST: Final = 200
MOST: Final = 1_000_000
"""Values of one document, with each alias counted as all that it stands for."""

_ALIAS: Final = re.compile(rb"(?:^|[\s\[{,:-])[&*][^\s,\]}]", re.MULTILINE)
_NESTED_LINE: Final = re.compile(rb"(?:[-?:][ \t]+){40}")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooMuch(Exception):
    """Text that would cost more than it can be worth; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def guard(text: bytes) -> None:
    """Raise TooMuch for text that must not be loaded; yaml.YAMLError for what is none."""
    opened = text.count(b"[") + text.count(b"{")
    if opened > DEEPEST or _ALIAS.search(text) or _NESTED_LINE.search(text):
        _walk(text)


def _walk(text: bytes) -> None:
    """Follow the events of the text, which come one by one: depth and size are known before anything is built."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()
            total = 0
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, total))
            total += 1
            if len(open_) > DEEPEST:
                raise TooMuch(f"nested more than {DEEPEST} levels deep", event.start_mark.line + 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            total += sizes.get(event.anchor, 1)
            if event.anchor in {anchor for anchor, _ in open_}:
                raise TooMuch(f"the alias *{event.anchor} stands inside of what it names", event.start_mark.line + 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if total > MOST and sizes:
            line = event.start_mark.line + 1
            raise TooMuch(f"its aliases stand for more than {MOST:,} values; write out what is meant", line)
