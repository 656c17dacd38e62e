"""Mutants are what they are called, those of changed lines are found, and survivors need a reason."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.paths import MANIFESTS, ROOT
from tests.support.tables import each_case
from tools.mutants import code, mutant, policies
from tools.mutants.mutant import Mutant, complaints

FUNCTION = 'def f(a):\n    log.info("x", a)\n    return g(a, "Ready") + 1\n'
A, B, C = (Mutant("a.py", name, "f", "1", name) for name in "234")


def test_mutants_of_a_function_leave_out_what_says_little() -> None:
    changed = {mutation.becomes for mutation in code.mutants("toposcope/a.py", FUNCTION)}
    line = "return g(%s) + 1"
    calls = ("None, 'Ready'", "a, None", "'Ready'", "a,", "a, 'XXReadyXX'")
    assert changed == {
        *(line.replace("%s", call.replace("'", '"')).replace(",)", ", )") for call in calls),
        'return g(a, "Ready") - 1',
        'return g(a, "Ready") + 2',
    }


@each_case("tables/mutants.yaml")
def test_each_clause_is_dropped_and_negated(expression: str, clause: str, dropped: str, negated: str) -> None:
    (found,) = (changed for was, changed in policies.changes(expression) if was.strip() == clause)
    assert [found[kind].split() for kind in ("dropped", "negated")] == [dropped.split(), negated.split()]


def test_every_policy_has_tests() -> None:
    files = (path for path in MANIFESTS.rglob("*.yaml") if "chart" not in path.parts)
    held = {str(path.relative_to(ROOT)) for path in files if "\nkind: ValidatingAdmissionPolicy\n" in path.read_text()}
    assert held == set(policies.paths())


def test_only_lines_that_changed_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(path: str, text: str) -> list[Mutant]:
        return [Mutant(path, str(number), "", line, "") for number, line in enumerate(text.splitlines())]

    monkeypatch.setattr(mutant, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text("1\n2\n2\n")
    user = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init"], ["add", "a.py"], [*user, "commit", "-m", "a"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)  # noqa: S607 - the git on PATH
    (tmp_path / "a.py").write_text("0\n1\n2\n")
    (tmp_path / "b.py").write_text("1\n")
    assert mutant.changed_since("HEAD") == {"a.py"}
    assert [mutation.was for path in ("a.py", "b.py") for mutation in mutant.new_since("HEAD", path, lines)] == [
        "0",
        "1",
    ]


def test_survivors_need_a_reason_and_reasons_need_survivors() -> None:
    killed = {A: True, B: False, C: False}
    explained = {str(C), "b.py: f: not looked at"}
    assert list(complaints([A, B, C], killed, explained)) == [f"survives: {B}"]
    assert not list(complaints([A, B, C], {}, {*explained, str(A)}))
    unneeded = "explained, but a test fails or it is gone: "
    assert list(complaints([A, C], {A: True}, {*explained, str(A)})) == [f"{unneeded}{A}"]
    assert list(complaints([A, C], {}, {str(B)})) == [f"{unneeded}{B}"]


def test_each_reason_is_of_files_that_are_changed() -> None:
    known = yaml.safe_load((ROOT / "tests" / "mutants.yaml").read_text())["explained"]
    assert all(entry["why"] for entry in known)
    assert {name.partition(": ")[0] for entry in known for name in entry["mutants"]} <= {
        *code.paths(),
        *policies.paths(),
    }
