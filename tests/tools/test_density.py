"""`tools.density` finds functions that do too much, and none in the project."""

import textwrap
from pathlib import Path

import pytest
from tools.density import main, problems_of


def messages(body: str) -> list[str]:
    text = textwrap.dedent(body)
    return [problem.message for problem in problems_of(Path("module.py"), text)]


def test_ten_paths_are_taken_and_eleven_are_not() -> None:
    ten = "def f(a):\n" + "    if a:\n        pass\n" * 9
    eleven = "def f(a):\n" + "    if a:\n        pass\n" * 10
    assert messages(ten) == []
    assert messages(eleven) == ["has 11 paths, more than 10: split it, or name steps of it"]


def test_paths_that_ruff_does_not_count_are_counted() -> None:
    found = messages(
        """
        def f(a, b):
            first = a and b and a or b
            second = 1 if a else 2 if b else 3
            third = [x for x in a if x if x > 1]
            fourth = [x for x in b if x or a]
            return first, second, third, fourth
        """
    )
    assert found == ["has 12 paths, more than 10: split it, or name steps of it"]


@pytest.mark.parametrize(
    ("comprehension", "problem"),
    [
        pytest.param(
            "[x for y in a for x in y]",
            "a comprehension of two loops",
            id="two-loops",
        ),
        pytest.param(
            "[[x for x in y] for y in a]",
            "a comprehension in a comprehension",
            id="list-in-list",
        ),
        pytest.param(
            "{y: any(x for x in y) for y in a}",
            "a comprehension in a comprehension",
            id="generator-in-dict",
        ),
    ],
)
def test_packed_comprehensions_are_found(comprehension: str, problem: str) -> None:
    (found,) = messages(f"def f(a):\n    return {comprehension}\n")
    assert problem in found


def test_functions_in_a_function_count_for_themselves() -> None:
    inner = "    def g(a):\n" + "        if a:\n            pass\n" * 8
    outer = "def f(a):\n" + inner + "    if a:\n        pass\n" * 8
    assert messages(outer) == []


def test_function_may_say_why_it_is_dense() -> None:
    assert messages("def f(a):  # dense: measured\n    return [x for y in a for x in y]\n") == []


def test_findings_name_the_place_and_end_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f(a):\n    return [x for y in a for x in y]\n")
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{module}:1: f has a comprehension")

    module.write_text("def f(a):\n    return a\n")
    assert main([str(tmp_path)]) == 0


def test_single_file_is_taken_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dense = tmp_path / "dense.py"
    dense.write_text("def f(a):\n    return [x for y in a for x in y]\n")
    plain = tmp_path / "plain.py"
    plain.write_text("def f(a):\n    return a\n")
    assert main([str(plain)]) == 0
    assert main([str(plain), str(dense)]) == 1
    assert capsys.readouterr().out.startswith(f"{dense}:1: f has a comprehension of two loops")
