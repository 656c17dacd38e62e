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
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    versions = json.loads(done.stdout)
    return {normal(name): version for name, version in versions.items()}


@pytest.fixture(scope="module")
def bill(prefix: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((prefix / "share" / "sbom" / "toposcope.cdx.json").read_bytes())
    return loaded


def test_bill_names_the_program_and_all_that_came_with_it(bill: dict[str, Any], installed: dict[str, str]) -> None:
    root = bill["metadata"]["component"]
    assert bill["bomFormat"] == "CycloneDX"
    assert root["name"] == "toposcope"
    assert root["version"] == __version__
    versions = {"toposcope": __version__}
    for component in bill["components"]:
        versions[normal(component["name"])] = component["version"]
        assert component["purl"].startswith("pkg:pypi/")
        assert component["licenses"], component["name"]
    assert versions == installed
    # Two builds of the same lock file say the same.
    assert "serialNumber" not in bill
    assert "timestamp" not in bill["metadata"]


def test_nothing_is_installed_that_the_lock_file_does_not_pin(installed: dict[str, str]) -> None:
    lock = (ROOT / "image" / "runtime.lock").read_text(encoding="utf-8")
    expected = {"toposcope": __version__}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.MULTILINE):
        expected[normal(name)] = version
    assert installed == expected


def test_commands_of_others_tests_and_sources_of_compilers_are_gone(prefix: Path) -> None:
    (interpreter,) = (prefix / "bin").glob("python3.*")
    commands = {path.name for path in (prefix / "bin").iterdir()}
    assert commands == {"python", "python3", interpreter.name, "toposcope"}
    for path in (prefix / "lib").rglob("*"):
        assert path.suffix not in {".pyi", ".c", ".h"}, path
        assert path.name not in {"tests", "test"}, path


def test_everything_is_compiled_for_the_settings_of_the_image(prefix: Path) -> None:
    sources = {path.with_suffix("") for path in (prefix / "lib").rglob("*.py")}
    compiled = set()
    for path in (prefix / "lib").rglob(f"*.{sys.implementation.cache_tag}.opt-2.pyc"):
        module, _, _ = path.name.partition(".")
        compiled.add(path.parents[1] / module)
    assert compiled == sources


def test_entry_point_names_its_interpreter(prefix: Path) -> None:
    first = (prefix / "bin" / "toposcope").read_bytes().split(b"\n", 1)[0]
    assert first == f"#!{prefix}/bin/python".encode()
