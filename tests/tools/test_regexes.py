"""A pattern with two ways to match one text is refused, wherever the product has it; one that is linear is not."""

import re
import textwrap
from pathlib import Path

import pytest
from tools.regexes.ambiguity import Growth, growth
from tools.regexes.automaton import Mode
from tools.regexes.judge import complaints

COMMENTS = rb"(?:(?:#.*|---[ \t]*|[ \t]*)\r?\n)*apiVersion: \S+\r?\nitems:\r?\n(?=- )"
"""What stopped the page's server: a comment's dot also matches the carriage return before the line's end."""


@pytest.mark.parametrize(
    "pattern",
    [
        COMMENTS,
        r"(a*)*b",
        r"(a+)+b",
        r"(?:ab|a|b)*c",
        r"(?:a|aa)*b",
        r"(?:a+b?)*c",
        r"(?:\s*,?\s*)*;",
        r"(?:[a-z]{0,16}){0,16}x",
        r"^(?:(?:[a-z])+.)+[A-Z]$",
        r"(?:x*)+(?=y)",
        r"(?i:(?:k|\u212a)+)*s",
        r"(?:(?:ab)*(?:ba)*a?b?)*c",
        r"(?:<[^>]*>|<[^>]*|>)*x",
    ],
)
def test_nested_repeats_are_exponential(pattern: str | bytes) -> None:
    assert growth(pattern, 0, Mode.MATCH) is Growth.EXPONENTIAL


@pytest.mark.parametrize(
    ("pattern", "mode"),
    [
        (r"a*a*b", Mode.MATCH),
        (r"\s*\s*x", Mode.FULLMATCH),
        (r"[0-9]+\.?[0-9]*x", Mode.MATCH),
        (r".*x.*y", Mode.MATCH),
        (r"\s+$", Mode.SEARCH),
        (r"(\d+)/", Mode.SEARCH),
        (r",(?![^(]*\))", Mode.SEARCH),
        (r"User \".*\" cannot", Mode.SEARCH),
        (r"x{1,9000}y{2,}z", Mode.SEARCH),
        (r"a(?=.*b)", Mode.SEARCH),
        (r"\s*\s*+x", Mode.MATCH),
        (r"(\w+)-\1[\w-]*!", Mode.MATCH),
    ],
)
def test_overlapping_repeats_are_quadratic(pattern: str, mode: Mode) -> None:
    assert growth(pattern, 0, mode) is Growth.QUADRATIC


@pytest.mark.parametrize(
    ("pattern", "mode"),
    [
        (r"a*b", Mode.MATCH),
        (r"\s+$", Mode.MATCH),
        (r"a+", Mode.SEARCH),
        (r"[^a-z0-9]+", Mode.SEARCH),
        (r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?", Mode.FULLMATCH),
        (r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", Mode.FULLMATCH),
        (r"(?m)^ *kind: (?:Node|Pod)[ \t]*\r?$", Mode.SEARCH),
        (r"\[([^\[\]]*)\]", Mode.SEARCH),
        (r"\b\d{1,9}/\d{1,9} slices", Mode.SEARCH),
        (r"(?s)x: (.*)", Mode.FULLMATCH),
        (r"(?:\s|#[^\n]*+)*+\Z", Mode.MATCH),
        (r"(?>a+)b", Mode.MATCH),
        (r"(?:a|b|c)+d", Mode.MATCH),
    ],
)
def test_unambiguous_pattern_is_linear(pattern: str, mode: Mode) -> None:
    assert growth(pattern, 0, mode) is Growth.LINEAR


@pytest.mark.parametrize(
    ("pattern", "flags", "expected"),
    [
        # The parser makes one set of the letters.
        pytest.param("(?:a|A)+b", re.IGNORECASE, Growth.LINEAR, id="letters-of-any-case"),
        pytest.param("(?:ab|Ab)+c", 0, Growth.LINEAR, id="words-of-one-case"),
        pytest.param("(?:ab|Ab)+c", re.IGNORECASE, Growth.EXPONENTIAL, id="words-of-any-case"),
        pytest.param(r"(?:.|\n)+x", 0, Growth.LINEAR, id="dot-without-line-end"),
        pytest.param(r"(?:.|\n)+x", re.DOTALL, Growth.EXPONENTIAL, id="dot-with-line-end"),
        pytest.param(r"(?:\dx|\u0663x)+y", 0, Growth.EXPONENTIAL, id="digits-of-any-script"),
        pytest.param(r"(?:\dx|\u0663x)+y", re.ASCII, Growth.LINEAR, id="ascii-digits"),
    ],
)
def test_flags_change_the_growth(pattern: str, flags: int, expected: Growth) -> None:
    assert growth(pattern, flags, Mode.MATCH) is expected


def lint(folder: Path, **modules: str) -> list[str]:
    """What is wrong with modules of these texts, as `path:line` and the rest."""
    (folder / "package").mkdir()
    for name, text in modules.items():
        (folder / "package" / f"{name}.py").write_text(textwrap.dedent(text))
    return complaints(folder, "package")


def test_pattern_counts_as_it_is_applied(tmp_path: Path) -> None:
    found = lint(
        tmp_path,
        a="""
        import re
        MATCHED = re.compile(r"a+b")
        SEARCHED = re.compile(r"a+b")
        HANDED_ON = re.compile(r"a+b")
        IN_A_TABLE = {"x": (re.compile(r"a+b"), 1)}
        def f(text, other):
            MATCHED.match(text)
            any(map(SEARCHED.search, text))
            other.until(HANDED_ON)
            re.sub(r"a+b", "", text)
            re.fullmatch(r"a+b", text)
        """,
    )
    assert [line.split(":")[1] for line in found] == ["4", "5", "6", "11"]
    assert "(search): quadratic or worse in the length of the text" in found[0]


def test_pattern_that_another_module_searches_for(tmp_path: Path) -> None:
    found = lint(
        tmp_path,
        a='import re\nNAME = re.compile(r"a+b")\nNAME.match("")\n',
        b="from package.a import NAME\nNAME.search('')\n",
    )
    assert [line.partition(": ")[0] for line in found] == ["package/a.py:2"]


def test_constants_are_put_together(tmp_path: Path) -> None:
    found = lint(
        tmp_path,
        a="""
        import re
        from package.b import LETTERS
        _ONE: str = "a|b"
        WORDS = ("x", *("y", "z"))
        re.match(f"(?:{_ONE}|{LETTERS.pattern})*c", "")
        re.match("(?:" + "|".join(WORDS) + ")*" + re.escape(text) + "!", "")
        """,
        b='import re\nLETTERS = re.compile("[a-z]+")\n',
    )
    assert [line.partition(": ")[0] for line in found] == ["package/a.py:6"]
    assert "exponential" in found[0]


def test_pattern_from_elsewhere_needs_a_reason(tmp_path: Path) -> None:
    found = lint(
        tmp_path,
        a="""
        import re
        def f(pattern, text):
            re.search(pattern, text)
            # linear: patterns of one character each
            re.search(pattern, text)
            return re.match(pattern, text)  # linear: bounded text
        """,
    )
    assert [line.partition(": ")[0] for line in found] == ["package/a.py:4"]
    assert "is not a constant" in found[0]


def test_reason_that_nothing_needs_is_refused(tmp_path: Path) -> None:
    found = lint(tmp_path, a='import re\nre.match(r"a+b", "")  # linear: because\n')
    assert found == ["package/a.py:2: 'a+b': is linear by itself; remove `# linear: because`"]


def test_patterns_of_functions_imported_by_name_are_found(tmp_path: Path) -> None:
    found = lint(tmp_path, a='from re import compile as made, search\nX = made("(a*)*b")\nsearch("a+b", "")\n')
    assert [line.partition(": ")[0] for line in found] == ["package/a.py:2", "package/a.py:3"]


def test_patterns_in_tables_of_meanings_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "toposcope" / "integrations" / "x"
    folder.mkdir(parents=True)
    (folder / "meanings.yaml").write_text("'(\\S+) quota': 'of {0}'\n'queue (\\S+)': 'of {0}'\n")
    assert complaints(tmp_path, "toposcope") == [
        r"toposcope/integrations/x/meanings.yaml: (\S+) quota: quadratic or worse in the length of the text"
    ]
