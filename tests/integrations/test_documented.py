"""docs/workloads.md names every rule of its systems, and no rule that is not there."""

import re
from fnmatch import fnmatchcase

from tests.support.paths import ROOT

RULE = r"(?:dynamo|grove|jobset|kai|kueue|leaderworkerset|osmo|runai)/[a-z*][a-z*-]*"
LABELS = {"runai/node-pool"}  # a node label, no rule
PAGE = set(re.findall(f"`({RULE})`", (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")))


def rules() -> set[str]:
    """The rules in the code of the systems."""
    found: set[str] = set()
    for path in (ROOT / "toposcope" / "integrations").rglob("*.py"):
        if "demo" in path.parts:
            continue  # kinds of the demo's objects
        text = path.read_text(encoding="utf-8")
        found.update(re.findall(f'"({RULE})"', text))
        for rest in re.findall(r'f"\{system\}(/[a-z-]+)"', text):
            found.add(f"kai{rest}")
            found.add(f"kueue{rest}")
    return found - LABELS


def without_match(names: set[str], patterns: set[str]) -> list[str]:
    """The names that no pattern stands for."""
    unmatched = []
    for name in sorted(names):
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            unmatched.append(name)
    return unmatched


def test_every_rule_is_documented() -> None:
    assert without_match(rules(), PAGE) == []


def test_every_documented_rule_exists() -> None:
    missing = []
    for pattern in sorted(PAGE):
        if not any(fnmatchcase(rule, pattern) for rule in rules()):
            missing.append(pattern)
    assert missing == []
