"""Text that the YAML library would not survive is refused before it is loaded."""

import pytest

from toposcope.snapshot.yaml_guard import DEEPEST, YamlLimitError, guard
from toposcope.snapshot.yaml_text import YamlSyntaxError, load


@pytest.mark.parametrize("text", [b"[" * 100_000, b"- " * 50_000, b"? " * 50_000, b"{a: " * 50_000])
def test_nesting_without_end(text: bytes) -> None:
    with pytest.raises(YamlSyntaxError, match=f"more than {DEEPEST} levels deep"):
        load(b"kind: Node\nspec:\n  " + text)


def test_aliases_that_multiply() -> None:
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [b"a%d: &a%d [%b]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)]
    with pytest.raises(YamlSyntaxError, match="stand for more than 1,000,000 values; write out") as refused:
        load(b"\n".join(lines))
    assert refused.value.line == 6


def test_an_alias_inside_of_what_it_names() -> None:
    with pytest.raises(YamlLimitError, match=r"\*a stands inside"):
        guard(b"spec: &a {self: *a}")


def test_honest_aliases_and_braces_are_let_through() -> None:
    assert load(b"a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}
    assert load(b"a: &x 1\nc: [*x, *x]") == {"a": 1, "c": [1, 1]}
    many = b"\n".join(b"- {a: [1], b: {c: 2}}" for _ in range(300))
    assert len(load(many)) == 300


def test_each_document_is_measured_alone() -> None:
    guard(b"---\n".join(b"a: &a [1, 2]\nb: [*a, *a]\n" for _ in range(50)))
