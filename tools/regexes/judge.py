"""What is wrong with the regular expressions of a source tree, one line for each."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from tools.regexes.ambiguity import Growth, growth
from tools.regexes.automaton import Mode
from tools.regexes.places import Regex, regexes

_ORDER: Final = list(Growth)
MEANINGS: Final = "toposcope/integrations/*/meanings.yaml"
"""Tables whose keys are patterns, searched for in schedulers' messages."""


def complaints(root: Path, package: str) -> list[str]:
    """What is wrong below `root / package`, with file and line.

    Marks there that nothing needs are reported, too.
    """
    found = regexes(root, package)
    return [*filter(None, map(complaint, found)), *_tables(root)]


def complaint(regex: Regex) -> str:
    """What is wrong with one of them; empty for nothing."""
    where = f"{regex.path}:{regex.line}: {regex.source}"
    worst = _worst(regex)
    if worst is Growth.LINEAR:
        return (
            f"{where}: is linear by itself; remove `# linear: {regex.reason}`"
            if regex.reason
            else ""
        )
    if regex.reason:
        return ""
    if worst is None:
        return (
            f"{where}: the pattern is not a constant; "
            "write `# linear: WHY` if nothing makes it slow"
        )
    ways = ", ".join(sorted(regex.modes))
    return (
        f"{where} ({ways}): {worst} in the length of the text; "
        "give each text one way to match, bound the text, "
        "or use plain string code"
    )


def _worst(regex: Regex) -> Growth | None:
    """How its time grows in the worst of its ways; None where that cannot be told."""
    if regex.pattern is None:
        return None
    try:
        return max(
            (growth(regex.pattern, regex.flags, mode) for mode in regex.modes), key=_ORDER.index
        )
    except re.error:
        return None


def _tables(root: Path) -> Iterator[str]:
    """What is wrong with the patterns that YAML files hold as keys."""
    for path in sorted(root.glob(MEANINGS)):
        shown = path.relative_to(root)
        for pattern in _keys(path):
            worst = growth(pattern, 0, Mode.SEARCH)
            if worst is Growth.LINEAR:
                continue
            yield f"{shown}: {pattern}: {worst} in the length of the text"


def _keys(path: Path) -> Sequence[str]:
    return list(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader))
