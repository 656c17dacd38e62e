"""What lies in the image, and the bill of materials that says so."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import ROOT
from toposcope import __version__

pytestmark = pytest.mark.slow

LIST = """
import importlib.metadata as m, json
print(json.dumps({d.metadata["Name"]: d.version for d in m.distributions()}))
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def installed(prefix: Path) -> dict[str, str]:
    command: list[str | Path] = [prefix / "bin" / "python", "-c", LIST]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout)
    return {normal(name): version for name, version in found.items()}


@pytest.fixture(scope="module")
def bill(prefix: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((prefix / "share" / "sbom" / "toposcope.cdx.json").read_bytes())
    return loaded


def test_the_bill_names_the_program_and_all_that_came_with_it(bill: dict[str, Any], installed: dict[str, str]) -> None:
    root = bill["metadata"]["component"]
    assert (bill["bomFormat"], root["name"], root["version"]) == ("CycloneDX", "toposcope", __version__)
    named = {normal(c["name"]): c["version"] for c in bill["components"]}
    assert named | {"toposcope": __version__} == installed
    assert all(c["purl"].startswith("pkg:pypi/") and c["licenses"] for c in bill["components"])
    # Two builds of the same lock file say the same.
    assert "serialNumber" not in bill
    assert "timestamp" not in bill["metadata"]


def test_nothing_is_installed_that_the_lock_file_does_not_pin(installed: dict[str, str]) -> None:
    lock = (ROOT / "image" / "runtime.lock").read_text(encoding="utf-8")
    pinned = {normal(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.MULTILINE)}
    assert {name: version for name, version in installed.items() if name != "toposcope"} == pinned


def test_commands_of_others_tests_and_sources_of_compilers_are_gone(prefix: Path) -> None:
    assert {path.name for path in (prefix / "bin").iterdir()} - {"python", "python3"} == {
        "toposcope",
        next(path.name for path in (prefix / "bin").glob("python3.*")),
    }
    left = [p for p in (prefix / "lib").rglob("*") if p.suffix in {".pyi", ".c", ".h"} or p.name in {"tests", "test"}]
    assert left == []


def test_everything_is_compiled_for_the_settings_of_the_image(prefix: Path) -> None:
    sources = {path.with_suffix("") for path in (prefix / "lib").rglob("*.py")}
    compiled = (prefix / "lib").rglob(f"*.{sys.implementation.cache_tag}.opt-2.pyc")
    assert sources == {path.parents[1] / path.name.split(".")[0] for path in compiled}


def test_the_entry_point_names_its_interpreter(prefix: Path) -> None:
    first = (prefix / "bin" / "toposcope").read_bytes().split(b"\n", 1)[0]
    assert first == f"#!{prefix}/bin/python".encode()
