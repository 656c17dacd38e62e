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
    done = subprocess.run(
        command,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    versions = {}
    for name, version in json.loads(done.stdout).items():
        versions[normal(name)] = version
    return versions


@pytest.fixture(scope="module")
def bill(prefix: Path) -> dict[str, Any]:
    file = prefix / "share" / "sbom" / "toposcope.cdx.json"
    loaded: dict[str, Any] = json.loads(file.read_bytes())
    return loaded


def test_bill_names_the_program_and_all_that_came_with_it(bill: dict[str, Any], installed: dict[str, str]) -> None:
    assert bill["bomFormat"] == "CycloneDX"
    metadata = bill["metadata"]
    root = metadata["component"]
    assert root["name"] == "toposcope"
    assert root["version"] == __version__
    versions = {"toposcope": __version__}
    for component in bill["components"]:
        name = component["name"]
        versions[normal(name)] = component["version"]
        assert component["purl"].startswith("pkg:pypi/")
        assert component["licenses"], name
    assert versions == installed
    # Two builds of the same lock file say the same.
    assert "serialNumber" not in bill
    assert "timestamp" not in metadata


def test_nothing_is_installed_that_the_lock_file_does_not_pin(installed: dict[str, str]) -> None:
    file = ROOT / "image" / "runtime.lock"
    lock = file.read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.MULTILINE)
    expected = {"toposcope": __version__}
    for name, version in pinned:
        expected[normal(name)] = version
    assert installed == expected


def test_commands_of_others_tests_and_sources_of_compilers_are_gone(prefix: Path) -> None:
    programs = prefix / "bin"
    (interpreter,) = programs.glob("python3.*")
    commands = {path.name for path in programs.iterdir()}
    assert commands == {
        "python",
        "python3",
        interpreter.name,
        "toposcope",
    }
    library = prefix / "lib"
    for path in library.rglob("*"):
        assert path.suffix not in {".pyi", ".c", ".h"}, path
        assert path.name not in {"tests", "test"}, path


def test_everything_is_compiled_for_the_settings_of_the_image(prefix: Path) -> None:
    library = prefix / "lib"
    sources = {path.with_suffix("") for path in library.rglob("*.py")}
    suffix = f"{sys.implementation.cache_tag}.opt-2.pyc"
    compiled = set()
    for path in library.rglob(f"*.{suffix}"):
        module, _, _ = path.name.partition(".")
        compiled.add(path.parents[1] / module)
    assert compiled == sources


def test_entry_point_names_its_interpreter(prefix: Path) -> None:
    script = (prefix / "bin" / "toposcope").read_bytes()
    first, _, _ = script.partition(b"\n")
    assert first.decode() == f"#!{prefix}/bin/python"
