"""`make audit` says what pip-audit found, and what it could not look up."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tools.advisories import main, result_of

SAFE: dict[str, Any] = {
    "name": "safe",
    "version": "1.0",
    "vulns": [],
}
HOLE: dict[str, Any] = {
    "name": "hole",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1", "3.0"]}],
}
OPEN: dict[str, Any] = {
    "name": "open",
    "version": "4.0",
    "vulns": [{"id": "PYSEC-2", "fix_versions": []}],
}
UNKNOWN: dict[str, Any] = {
    "name": "unknown",
    "skip_reason": "Dependency not found on PyPI and could not be audited: unknown (5.0)",
}


def report(*dependencies: dict[str, Any]) -> str:
    """What pip-audit prints of these."""
    return json.dumps({"dependencies": dependencies})


def pip_audit_that_prints(folder: Path, output: str, errors: str = "") -> list[str]:
    """A command in pip-audit's place."""
    (folder / "output").write_text(output, encoding="utf-8")
    (folder / "errors").write_text(errors, encoding="utf-8")
    script = f"#!/bin/sh\ncat {folder}/output\ncat {folder}/errors >&2\nexit 1\n"
    command = folder / "pip-audit"
    command.write_text(script, encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return [str(command)]


def test_vulnerabilities_are_named_with_the_versions_that_fix_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = pip_audit_that_prints(tmp_path, report(SAFE, HOLE, OPEN, UNKNOWN))
    assert main(["a.lock", "--", *command]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a.lock: 3 packages checked, 2 vulnerabilities",
        "  hole 2.0: PYSEC-1, fixed in 2.1, 3.0",
        "  open 4.0: PYSEC-2, fixed in no version yet",
        "  not checked, because the index has no advisories for them: unknown",
    ]


def test_safe_packages_pass_in_every_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = pip_audit_that_prints(tmp_path, report(SAFE))
    assert main(["a.lock", "b.lock", "--", *command]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.lock: 1 packages checked, 0 vulnerabilities",
        "b.lock: 1 packages checked, 0 vulnerabilities",
    ]


def test_index_that_does_not_answer_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    errors = "Traceback ...\nConnectionError: Could not connect to PyPI's vulnerability feed\n"
    command = pip_audit_that_prints(tmp_path, "", errors)
    assert main(["a.lock", "--", *command]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.lock: not checked: ConnectionError: Could not connect to PyPI's vulnerability feed",
        "audit: nothing was checked, because no index of advisories answered",
    ]


def test_index_without_advisories_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = pip_audit_that_prints(tmp_path, report(UNKNOWN))
    assert main(["a.lock", "--", *command]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("audit: nothing was checked")


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("", id="nothing"),
        pytest.param("[]", id="list"),
        pytest.param("{}", id="empty-object"),
        pytest.param("null", id="null"),
        pytest.param("3", id="number"),
        pytest.param('{"dependencies"', id="half"),
    ],
)
def test_output_that_is_no_report_is_no_clean_bill(output: str) -> None:
    result = result_of("a.lock", output, "")
    assert result.failed == "pip-audit said nothing"
    assert result.checked == 0
