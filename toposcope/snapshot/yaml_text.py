"""YAML as Kubernetes means it: JSON's types only, and a line number for whatever is wrong."""

import re
from collections.abc import Sequence
from typing import Any, Final

import yaml

from toposcope.errors import ToposcopeError
from toposcope.snapshot.yaml_guard import YamlLimitError, guard
from toposcope.topology.text import not_utf8, yaml_words

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PATH: Final = re.compile(r"\.([^.\[\]]+)|\[([^\[\]]+)\]")
_UNREAD: Final = re.compile(rb"^( +)(?:managedFields|images):[ \t]*\r?\n(?:\1[- ].*\n)*", re.MULTILINE)
_NODE_OR_POD: Final = re.compile(rb"^ *(?:- )?kind: (?:Node|Pod)[ \t]*\r?$", re.MULTILINE)


class _Loader(_BASE):  # type: ignore[misc]  # types-PyYAML knows the class by one of two names only
    """The safe loader without dates: `2025-01-15` is text to Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}


class YamlSyntaxError(ToposcopeError):
    """Text that is no YAML; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def load(text: bytes) -> Any:
    """The values of one document. Raises NotYaml."""
    try:
        guard(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        words = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise YamlSyntaxError(f"not YAML: {yaml_words(words)}", mark.line + 1 if mark else 1) from None
    except YamlLimitError as error:
        raise YamlSyntaxError(str(error), error.line) from None
    except RecursionError:
        raise YamlSyntaxError("nested too deeply", 1) from None
    except UnicodeDecodeError as error:
        raise YamlSyntaxError(not_utf8(error), 1) from None
    except ValueError as error:  # a number or a date that Python refuses
        raise YamlSyntaxError(f"not YAML: {yaml_words(str(error))}", 1) from None


def without_bulk(text: bytes) -> bytes:
    """A Node's or Pod's text without the lists that nothing here reads, which are most of it: YAML is slow to read.

    They are whole blocks of lines, told by their indentation. Line numbers of what follows are no longer those of
    the file, so this text is never used to find a line.
    """
    return _UNREAD.sub(b"", text) if _NODE_OR_POD.search(text) else text


def locate(text: bytes, path: str, inside: str = "") -> tuple[str, int]:
    """Where a path as msgspec says it (`$.metadata.labels[...]`) stands: the path with real keys, the line from 1.

    A key with dots in it stands in brackets: `$.metadata.labels[example.com/rack]`.
    `inside` leads to the object that the path is about. Works for YAML and JSON; line 1 when it cannot be read so.
    """
    outer = _PATH.findall(inside)
    steps = outer + _PATH.findall(path.partition("$")[2])
    try:
        guard(text)
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, YamlLimitError, RecursionError, ValueError):
        return _joined([name or f"[{index}]" for name, index in steps[len(outer) :]]), 1
    found: list[str] = []
    line = node.start_mark.line + 1 if node else 1
    for name, index in steps:
        step = _child(node, name, index)
        if step is None:
            found.append(name or f"[{index}]")
            continue
        key, node = step
        line = node.start_mark.line + 1
        found.append(key)
    return _joined(found[len(outer) :]), line


def _child(node: Any, name: str, index: str) -> tuple[str, Any] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            # `[...]` is some value of a mapping: the one that is no text is the one complained about.
            if key.value in (name, index) or (index == "..." and value.tag != "tag:yaml.org,2002:str"):
                return str(key.value), value
    if isinstance(node, yaml.SequenceNode) and index.isdigit() and int(index) < len(node.value):
        return f"[{index}]", node.value[int(index)]
    return None


def _joined(steps: Sequence[str]) -> str:
    text = ""
    for step in steps:
        text += step if step.startswith("[") or not text else f".{step}"
    return text
