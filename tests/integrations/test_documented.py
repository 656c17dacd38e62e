"""docs/workloads.md names every rule of its systems, and no rule that is not there."""

import re
from fnmatch import fnmatchcase

from tests.support.paths import ROOT

RULE = r"(?:dynamo|grove|jobset|kai|kueue|leaderworkerset|osmo|runai)/[a-z*][a-z*-]*"
LABELS = {"runai/node-pool"}  # a node label, no rule
PAGE = set(re.findall(f"`({RULE})`", (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")))


def rules() -> set[str]:
    found = set()
    for path in (ROOT / "toposcope" / "integrations").rglob("*.py"):
        if "demo" in path.parts:
            continue  # kinds of the demo's objects
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(f'"({RULE})"', text))
        for rest in re.findall(r'f"\{system\}(/[a-z-]+)"', text):
            found |= {f"kai{rest}", f"kueue{rest}"}
    return found - LABELS


def test_every_rule_is_documented() -> None:
    assert {rule for rule in rules() if not any(fnmatchcase(rule, shown) for shown in PAGE)} == set()


def test_every_documented_rule_exists() -> None:
    assert {shown for shown in PAGE if not any(fnmatchcase(rule, shown) for rule in rules())} == set()
