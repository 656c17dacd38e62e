"""YAML from anybody: limits that hold wherever it is read, and where a field is."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.paths import ROOT
from toposcope.api.yaml_text import MAX_DEPTH, YamlSyntaxError, check_limits, compose, load, locate, without_unread
from toposcope.hierarchy.controller_config import UnreadableError, read_config
from toposcope.kube.config import load as load_kubeconfig
from toposcope.kube.errors import ConfigError
from toposcope.simulator.document import DocumentError, read_document


def laughs() -> bytes:
    """Lists of ten aliases each, twenty levels deep: 10^20 values."""
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 20):
        alias = b"*a%d" % (level - 1)
        aliases = b", ".join([alias] * 10)
        line = b"a%d: &a%d [%b]" % (level, level, aliases)
        lines.append(line)
    return b"\n".join(lines)


LAUGHS = laughs()


@pytest.mark.regression
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"metadata:\n  annotations:\n    a.b/c: 1\n", id="yaml"),
        pytest.param(b'{"metadata":\n{"annotations":\n{"a.b/c": 1}}}', id="json"),
    ],
)
def test_key_with_dots_is_found_by_its_brackets(text: bytes) -> None:
    _field, line = locate(text, "$.metadata.annotations[a.b/c]")
    assert line == 3
    field, line = locate(text, "$.metadata.annotations[d.e/f]")
    assert field == "metadata.annotations[d.e/f]"
    assert line == 3


@pytest.mark.regression
def test_place_in_json_that_is_indented_by_tabs_is_found() -> None:
    assert locate(b'{\n\t"spec": {\n\t\t"levels": 1}}', "$.spec.levels") == ("spec.levels", 3)


def test_place_in_text_that_cannot_be_parsed_is_its_first_line() -> None:
    assert locate(b"spec: [", "$.spec.levels") == ("spec.levels", 1)


NODE = b"""kind: Node
metadata:
  managedFields:
  - manager: kubelet
  name: n1
status:
  capacity:
    cpu: "8"
  images:
  - names: [a]
  - names: [b]"""


@pytest.mark.regression
@pytest.mark.parametrize("end", [b"", b"\n", b"\n  phase: Running\n"], ids=["no-line-break", "line-break", "more"])
def test_images_and_managed_fields_of_a_node_are_left_out(end: bytes) -> None:
    left = load(without_unread(NODE + end))
    assert left["metadata"] == {"name": "n1"}
    assert left["status"].pop("phase", "Running") == "Running"
    assert left["status"] == {"capacity": {"cpu": "8"}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * 100_000, id="brackets"),
        pytest.param(b"- " * 50_000, id="dashes"),
        pytest.param(b"? " * 50_000, id="question-marks"),
        pytest.param(b"{a: " * 50_000, id="braces"),
    ],
)
def test_yaml_nested_without_end_is_rejected_before_loading(text: bytes) -> None:
    document = b"kind: Node\nspec:\n  " + text
    with pytest.raises(YamlSyntaxError, match=f"more than {MAX_DEPTH} levels deep"):
        load(document)


@pytest.mark.regression
def test_aliases_that_multiply_are_rejected() -> None:
    with pytest.raises(YamlSyntaxError, match="expand to more than 1,000,000 values; write them out") as rejected:
        load(LAUGHS)
    assert rejected.value.line == 6


@pytest.mark.regression
def test_alias_that_contains_itself_is_rejected() -> None:
    with pytest.raises(YamlSyntaxError, match=r"\*a refers to a value that contains it"):
        check_limits(b"spec: &a {self: *a}")


@pytest.mark.slow
@pytest.mark.regression
def test_document_of_too_many_values_is_rejected_before_loading() -> None:
    document = b"a:\n" + b"- \n" * 1_000_000
    with pytest.raises(YamlSyntaxError, match="more than 1,000,000 values; split it into documents") as rejected:
        load(document)
    assert rejected.value.line == 999_999


@pytest.mark.regression
def test_harmless_aliases_and_braces_load() -> None:
    of_a_mapping = load(b"a: &x {b: 1}\nc: *x")
    assert of_a_mapping == {"a": {"b": 1}, "c": {"b": 1}}
    of_a_number = load(b"a: &x 1\nc: [*x, *x]")
    assert of_a_number == {"a": 1, "c": [1, 1]}
    with_braces = load(b"- {a: [1], b: {c: 2}}\n" * 300)
    assert len(with_braces) == 300


@pytest.mark.regression
def test_aliases_of_each_document_are_counted_alone() -> None:
    document = b"a: &a [1, 2]\nb: [*a, *a]\n"
    documents = b"---\n".join([document] * 50)
    check_limits(documents)


READERS: dict[str, Callable[[Path], object]] = {
    "kubeconfig": lambda path: load_kubeconfig(str(path)),
    "configuration": lambda path: read_config(path.read_bytes(), str(path)),
    "profile": lambda path: read_document(path, dict, DocumentError),
    "nodes": lambda path: compose(path.read_bytes()),
}


@pytest.mark.regression
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(b"[" * 100_000, "levels deep", id="brackets"),
        pytest.param(LAUGHS, "aliases expand to more", id="aliases"),
    ],
)
def test_hostile_text_is_rejected_wherever_yaml_is_read(reader: str, text: bytes, words: str, tmp_path: Path) -> None:
    """The C library overflowed the stack on brackets; aliases had the kubernetes package walk them for ever."""
    file = tmp_path / "file.yaml"
    file.write_bytes(text)
    with pytest.raises((ConfigError, UnreadableError, DocumentError, YamlSyntaxError), match=words):
        READERS[reader](file)


PARSERS = {
    "load",
    "load_all",
    "safe_load",
    "safe_load_all",
    "full_load",
    "unsafe_load",
    "compose",
    "parse",
    "scan",
}
"""Functions of PyYAML that read a text."""


def parser_calls(text: str) -> list[int]:
    """The lines of a module that name one of PyYAML's parsers."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute):
            continue
        module = node.value
        if not isinstance(module, ast.Name) or module.id != "yaml":
            continue
        if node.attr in PARSERS:
            lines.append(node.lineno)
    return lines


@pytest.mark.slow
@pytest.mark.regression
def test_yaml_is_parsed_in_one_place() -> None:
    elsewhere = []
    for file in (ROOT / "toposcope").rglob("*.py"):
        if file.name == "yaml_text.py":
            continue
        for line in parser_calls(file.read_text()):
            elsewhere.append(f"{file.relative_to(ROOT)}:{line}")
    assert elsewhere == []
