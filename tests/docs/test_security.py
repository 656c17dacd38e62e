"""docs/maintainers/security-claims.md: each test that it names is there, and each of the rights' tests is named."""

import ast
import re
from pathlib import Path

import pytest
from tests.support.paths import DOCS, MANIFESTS, ROOT
from tools.fuzz.readers import READERS
from toposcope.api.yaml_text import MAX_DEPTH, MAX_DIGITS
from toposcope.kube.pages import MOST_PAGES
from toposcope.snapshot.cutter import BYTES_PER_OBJECT, LIMIT, OF_FILE
from toposcope.telemetry.node_endpoint import EndpointLimits
from toposcope.text import LONGEST_MESSAGE
from toposcope.ui.computing import ANSWER_SECONDS
from toposcope.ui.server import MAX_CONNECTIONS
from toposcope.ui.worker import MEMORY_BYTES

TESTS = ROOT / "tests"
TEXT = (DOCS / "security.md").read_text(encoding="utf-8")
TABLE = (DOCS / "maintainers" / "security-claims.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!claim|-)(.+?) \| (.+?) \|$", TABLE, re.MULTILINE)
RIGHTS = (
    "test_agent_rights",
    "test_component_rights",
    "test_confined",
    "test_controller_rights",
    "test_managed_fields",
    "test_planned_rights",
    "test_prune",
    "test_published_rights",
    "test_stolen_agent",
    "test_switches_rights",
    "test_ui",
)
ENDPOINT_LIMITS = EndpointLimits()
FIGURES = (
    f"{ANSWER_SECONDS:.0f} s; its process is ended",
    f"{MEMORY_BYTES >> 20} MiB, and once more",
    f"{MAX_CONNECTIONS}, then the idlest one goes",
    f"{LIMIT >> 20} MiB for one document",
    f"{OF_FILE} times that for a file unpacked",
    f"{LIMIT // BYTES_PER_OBJECT:,} objects in it",
    f"{MAX_DEPTH} levels, a million values",
    f"{MAX_DIGITS} digits in a number",
    f"Of {ENDPOINT_LIMITS.connections} connections",
    f"{ENDPOINT_LIMITS.head_seconds:.0f} s to come, an answer {ENDPOINT_LIMITS.write_seconds:.0f} s to be read",
    f"idle connection ends after {ENDPOINT_LIMITS.idle_seconds:.0f} s",
    f"each of {len(READERS)} readers",
    f"cut after {LONGEST_MESSAGE >> 10} KiB",
    f"a {MOST_PAGES:,}th page",
)


def names_in(path: Path) -> set[str]:
    """The tests of a file, those of a class with its name."""
    source = path.read_text(encoding="utf-8")
    found = set()
    for part in ast.parse(source).body:
        if isinstance(part, ast.FunctionDef):
            found.add(part.name)
        if isinstance(part, ast.ClassDef):
            for method in part.body:
                if isinstance(method, ast.FunctionDef):
                    found.add(f"{part.name}::{method.name}")
    return found


@pytest.mark.parametrize(("claim", "cell"), ROWS, ids=[claim for claim, _ in ROWS])
def test_each_claim_has_tests_that_are_there(claim: str, cell: str) -> None:
    named = re.findall(r"`([^`]+)`", cell)
    assert named, claim
    for name in named:
        file, _, test = name.partition("::")
        path = TESTS / file
        assert path.is_file(), name
        assert test in names_in(path), name
        _, _, function = test.rpartition("::")
        assert function.startswith("test_"), name


@pytest.mark.parametrize("words", FIGURES)
def test_bounds_are_those_of_the_programs(words: str) -> None:
    text = " ".join(TEXT.split())
    assert words in text


def test_components_that_admit_privileged_pods_are_named() -> None:
    (sentence,) = re.findall(
        r"\n\n(.*) make the namespace admit privileged pods",
        TEXT,
    )
    named = re.findall(r"`([^`]+)`", sentence)
    privileged = []
    components = MANIFESTS / "components"
    for file in components.glob("*/kustomization.yaml"):
        text = file.read_text(encoding="utf-8")
        if "pod-security-privileged" in text:
            privileged.append(file.parent.name)
    assert named == sorted(privileged)


@pytest.mark.parametrize("module", RIGHTS)
def test_each_file_about_rights_shows_a_claim(module: str) -> None:
    assert f"`manifests/{module}.py::" in TABLE


def test_no_claim_is_made_twice() -> None:
    claims = {claim for claim, _ in ROWS}
    assert len(ROWS) > 10
    assert len(claims) == len(ROWS)
