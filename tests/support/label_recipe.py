"""The steps of docs/maintainers/new-system.md that a label or a level has not taken."""

from collections.abc import Iterator

from tests.support.paths import DOCS, ROOT
from tools.docgen import tables
from toposcope.agent.labels import ALL
from toposcope.api import label_keys
from toposcope.hierarchy.platforms import KEYS

PAGE = DOCS / "maintainers" / "new-system.md"
NEED_SWITCHES = frozenset({label_keys.LEAF, label_keys.LEAF_GROUP})
"""Labels that no machine shows alone."""
CATALOGUE_TESTS = ROOT / "tests" / "hierarchy" / "test_catalogue.py"
LABEL_TESTS = (ROOT / "tests" / "agent", ROOT / "tests" / "hardware")


def missing_label_steps(key: str) -> list[str]:
    """`Label, step 2: its value: …`, one for each step that a label of ours has not taken."""
    omissions = []
    for step, omission in _missing_of_label(key):
        heading = _heading("Label", step)
        omissions.append(f"{heading}: {omission}")
    return omissions


def missing_level_steps(domain: str) -> list[str]:
    """`Level, step 1: the catalogue: …`, one for each step that a level has not taken."""
    omissions = []
    for step, omission in _missing_of_level(domain):
        heading = _heading("Level", step)
        omissions.append(f"{heading}: {omission}")
    return omissions


def _missing_of_label(key: str) -> Iterator[tuple[int, str]]:
    name = key.removeprefix(label_keys.PREFIX)
    if key not in tables.meanings():
        yield 1, f"toposcope/api/label_keys.py does not say what {key} means"
    if key not in ALL:
        yield 2, f"ALL in toposcope/agent/labels.py lacks {key}"
    if key not in NEED_SWITCHES and not _is_shown(key):
        yield 3, f"no profile in EXAMPLES of tools/docgen has {key}"
    if not _is_tested(name):
        yield 4, f"no test in tests/agent/ or tests/hardware/ names {key}"
    reference = (DOCS / "labels.md").read_text(encoding="utf-8")
    if f"| `{key}` |" not in reference:
        yield 5, f"docs/labels.md lacks {key}: make reference"


def _is_shown(key: str) -> bool:
    for profile in tables.EXAMPLES.values():
        if key in tables.described(profile).labels.by_key:
            return True
    return False


def _is_tested(name: str) -> bool:
    """Whether a test has the label, by its name or its constant."""
    constant = name.replace("-", "_").upper()
    for folder in LABEL_TESTS:
        for file in folder.rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if name in text or constant in text:
                return True
    return False


def _missing_of_level(domain: str) -> Iterator[tuple[int, str]]:
    keys = KEYS.get(domain, ())
    if not keys:
        yield 1, f"toposcope/hierarchy/platforms.toml has no keys for {domain}"
    tested = CATALOGUE_TESTS.read_text(encoding="utf-8")
    if not any(key in tested for key in keys):
        yield 2, f"no test of tests/hierarchy/test_catalogue.py has a key of {domain}"
    if not _is_in_the_documented_catalogue(domain):
        yield 3, f"the catalogue in docs/ lacks {domain}: make reference"


def _is_in_the_documented_catalogue(domain: str) -> bool:
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        _, _, after = text.partition("<!-- generated: catalogue ")
        table, _, _ = after.partition("<!-- end: catalogue -->")
        if f"| `{domain}` |" in table:
            return True
    return False


def _heading(recipe: str, step: int) -> str:
    """The heading of a step on the page, so that the two cannot part."""
    begin = f"## {recipe}, step {step}:"
    text = PAGE.read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith(begin):
            return line.removeprefix("## ")
    raise AssertionError(f"{PAGE} has no heading {begin!r}")
