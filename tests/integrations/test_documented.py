"""tools/docgen/rules.toml, of which docs/ has its tables, names every rule of `toposcope check`, and no other."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tests.support.paths import ROOT
from tools.docgen.rules import documented
from toposcope.integrations.registry import PLUGINS

FOLDERS = ("integrations", "placement")
COMMON = ("dra", "gpus", "leaderworkerset", "levels", "object", "pods")
BEFORE_THE_SLASH = [*COMMON, *(plugin.name for plugin in PLUGINS)]
RULE = rf"(?:{'|'.join(BEFORE_THE_SLASH)})/[a-z-]+"
LABELS = {"runai/node-pool"}  # a node label, no rule
OF_A_COMMAND = {"server"}  # toposcope/cli/check.py


def rules() -> set[str]:
    """The rules in the code."""
    found: set[str] = set()
    for path in _modules():
        text = path.read_text(encoding="utf-8")
        found.update(re.findall(f'"({RULE})"', text))
        for rest in re.findall(r'f"\{system\}(/[a-z-]+)"', text):
            found.add(f"kai{rest}")
            found.add(f"kueue{rest}")
    return found - LABELS | OF_A_COMMAND


def _modules() -> Iterator[Path]:
    """Those that may find something; those of a demo name kinds in the same form."""
    for folder in FOLDERS:
        for path in (ROOT / "toposcope" / folder).rglob("*.py"):
            if "demo" not in path.parts:
                yield path


def without_match(names: set[str], patterns: set[str]) -> list[str]:
    """The names that no pattern stands for."""
    unmatched = []
    for name in sorted(names):
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            unmatched.append(name)
    return unmatched


def test_every_rule_is_documented() -> None:
    assert without_match(rules(), documented()) == []


def test_every_documented_rule_exists() -> None:
    known = rules()
    missing = []
    for pattern in sorted(documented()):
        if not any(fnmatchcase(rule, pattern) for rule in known):
            missing.append(pattern)
    assert missing == []
