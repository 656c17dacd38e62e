"""Keeps from the YAML library what it cannot survive: text nested without end, and aliases that multiply.

The library in C overflows the stack on the first. The second loads in no time, as parts that are shared, and is a
billion values for whoever walks through them. Texts that kubectl and people write show at a glance that they are
neither, and are not looked at twice.
"""

import re
from typing import Any, Final

import yaml

from toposcope.errors import ToposcopeError

DEEPEST: Final = 200
MOST: Final = 1_000_000
"""Values of one document, with each alias counted as all that it stands for."""

_ALIAS: Final = re.compile(rb"(?:^|[\s\[{,:-])[&*][^\s,\]}]", re.MULTILINE)
_NESTED_LINE: Final = re.compile(rb"(?:[-?:][ \t]+){40}")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlLimitError(ToposcopeError):
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
    counted = _Counted()
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            counted = _Counted()
        counted.count(event)
        if len(counted.open) > DEEPEST:
            raise YamlLimitError(f"nested more than {DEEPEST} levels deep", _line(event))
        if counted.total > MOST and counted.sizes:
            raise YamlLimitError(
                f"its aliases stand for more than {MOST:,} values; write out what is meant", _line(event)
            )


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Counted:
    """What one document comes to, as far as it has been seen."""

    def __init__(self) -> None:
        self.total = 0
        self.sizes: dict[str, int] = {}
        """Values that each anchor stands for."""
        self.open: list[tuple[str | None, int]] = []
        """Anchors of the lists and mappings that have begun, and the total before each."""

    def count(self, event: Any) -> None:
        """Take one event of the library into account. Raises TooMuch."""
        if isinstance(event, yaml.CollectionStartEvent):
            self.open.append((event.anchor, self.total))
            self.total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self.open.pop()
            if anchor:
                self.sizes[anchor] = self.total - before
        elif isinstance(event, yaml.AliasEvent):
            anchor = str(event.anchor)
            if anchor in {each for each, _ in self.open}:
                raise YamlLimitError(f"the alias *{anchor} stands inside of what it names", _line(event))
            self.total += self.sizes.get(anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            self.total += 1
            if event.anchor:
                self.sizes[event.anchor] = 1
