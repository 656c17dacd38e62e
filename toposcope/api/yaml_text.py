"""YAML as Kubernetes reads it.

JSON's types only, a line number for each error, and limits for hostile text. The only place that
parses YAML: kubeconfigs, configuration, saved objects, workloads and profiles come through here.
The C library overflows the stack on deeply nested text, and aliases that multiply load at once as
shared parts but are a billion values to whoever walks them. Text that obviously does neither is not
parsed twice.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import yaml

from toposcope.errors import ToposcopeError
from toposcope.text import not_utf8, printable, yaml_words

MAX_DEPTH: Final = 200
MAX_VALUES: Final = 1_000_000
"""Of one document, with each alias counted as all that it stands for: some 750 MB once parsed.

Lists as kubectl prints them are cut into their items first, and each is a document.
"""
MAX_DIGITS: Final = 100
"""Characters of a number; in bases other than ten Python would take any number of them, and fail
when it prints it."""
_TOO_LONG: Final = f"a number has more than {MAX_DIGITS} digits; put it in quotes if it is text"
_TOO_DEEP: Final = f"nested more than {MAX_DEPTH} levels deep"
_LARGE_BYTES: Final = 1 << 20
"""Bytes that can't be too many values."""
_BASE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ALIAS: Final = re.compile(rb"(?:^|[\s\[{,:-])[&*][^\s,\]}]", re.MULTILINE)
# linear: at most 40 indicators from each place, and no place lies in the blanks after an indicator
_NESTED_LINE: Final = re.compile(rb"(?:[-?:][ \t]+){40}")
_PATH: Final = re.compile(r"\.([^.\[\]]+)|\[([^\[\]]+)\]")
_UNREAD: Final = re.compile(rb"^( +)(?:managedFields|images):[ \t]*\r?\n", re.MULTILINE)
_INDEX: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_NODE_OR_POD: Final = re.compile(rb"^ *(?:- )?kind: (?:Node|Pod)[ \t]*\r?$", re.MULTILINE)


class _Loader(_BASE):  # type: ignore[misc]  # types-PyYAML knows the class by one of two names only
    """The safe loader for JSON's types, with numbers of a bounded length.

    `2025-01-15` is text to Kubernetes.
    """

    def construct_plain(self, node: Any) -> Any:
        """A number, true or false, in any notation of YAML 1.1. Raises yaml.MarkedYAMLError."""
        what, construct = _PLAIN[node.tag]
        if len(node.value) > MAX_DIGITS:
            raise yaml.MarkedYAMLError(problem=_TOO_LONG, problem_mark=node.start_mark)
        try:
            return construct(self, node)
        except (ValueError, IndexError, KeyError):
            shown = printable(f"{node.value!r} is not {what}")
            raise yaml.MarkedYAMLError(problem=shown, problem_mark=node.start_mark) from None

    def refuse(self, node: Any) -> Any:
        """Raises yaml.MarkedYAMLError for a tag of values that JSON does not have."""
        name = node.tag.rpartition(":")[2]
        raise yaml.MarkedYAMLError(
            problem=f"!!{name} is no type of JSON; write it as text", problem_mark=node.start_mark
        )


_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final[dict[str, tuple[str, Any]]] = {
    f"{_TAG}int": ("a whole number", _BASE.construct_yaml_int),
    f"{_TAG}float": ("a number", _BASE.construct_yaml_float),
    f"{_TAG}bool": ("true or false", _BASE.construct_yaml_bool),
}
for _tag in _PLAIN:
    _Loader.add_constructor(_tag, _Loader.construct_plain)
for _name in ("binary", "omap", "pairs", "set", "timestamp"):
    _Loader.add_constructor(f"{_TAG}{_name}", _Loader.refuse)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}


class YamlSyntaxError(ToposcopeError):
    """Text that is not YAML, or too deep or too large to load; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def load(text: bytes) -> Any:
    """The values of one document. Raises YamlSyntaxError."""
    with _in_words():
        check_limits(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader


def compose(text: bytes) -> Any:
    """The node of one document, whose parts know their lines; None for no document.

    Raises YamlSyntaxError.
    """
    with _in_words():
        text.decode()
        check_limits(text)
        return yaml.compose(text, Loader=_Loader)


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn what PyYAML raises into YamlSyntaxError."""
    try:
        yield
    except yaml.YAMLError as error:
        raise _syntax_error(error) from None
    except RecursionError:
        raise YamlSyntaxError("nested too deeply", 1) from None
    except UnicodeDecodeError as error:
        raise YamlSyntaxError(not_utf8(error), 1) from None
    except ValueError as error:  # a number or a date that Python refuses
        words = yaml_words(str(error))
        raise YamlSyntaxError(f"not YAML: {words}", 1) from None


def _syntax_error(error: yaml.YAMLError) -> YamlSyntaxError:
    """What PyYAML says, with the line that it says it of."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        mark = getattr(error, "context_mark", None)
    line = mark.line + 1 if mark else 1
    problem = getattr(error, "problem", None)
    if not problem:
        problem, _, _ = str(error).partition("\n")
    words = yaml_words(problem)
    return YamlSyntaxError(f"not YAML: {words}", line)


def check_depth(value: Any) -> None:
    """Raise YamlSyntaxError for values nested more than `MAX_DEPTH` levels deep."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for each in level:
            if isinstance(each, list):
                below += each
            elif isinstance(each, dict):
                below += each.values()
        if not below:
            return
        level = below
    raise YamlSyntaxError(_TOO_DEEP, 1)


def check_limits(text: bytes) -> None:
    """Raise YamlSyntaxError for text that must not be loaded.

    Raises yaml.YAMLError for what is not YAML.
    """
    if not _may_be_too_much(text):
        return
    # Events come one by one, so that depth and size are known before anything is built.
    size = _Size()
    for event in yaml.parse(text, Loader=_BASE):
        if isinstance(event, yaml.DocumentStartEvent):
            size = _Size()
        size.add(event)


def _may_be_too_much(text: bytes) -> bool:
    """Whether the text is long, or could be deep or have aliases."""
    opened = text.count(b"[") + text.count(b"{")
    if len(text) > _LARGE_BYTES or opened > MAX_DEPTH:
        return True
    if _ALIAS.search(text):
        return True
    return _NESTED_LINE.search(text) is not None


class _Size:
    """Depth and number of values of one document so far."""

    def __init__(self) -> None:
        self.total = 0
        self._anchors: dict[str, int] = {}
        """Values that each anchor stands for."""
        self._open: list[tuple[str | None, int]] = []
        """Anchors of the open lists and mappings, and the total before each."""

    def add(self, event: Any) -> None:
        """Count one event of the parser. Raises YamlSyntaxError above a limit."""
        line = int(event.start_mark.line) + 1
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self.total))
            self.total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor:
                self._anchors[anchor] = self.total - before
        elif isinstance(event, yaml.AliasEvent):
            self._add_alias(str(event.anchor), line)
        elif isinstance(event, yaml.ScalarEvent):
            self.total += 1
            if event.anchor:
                self._anchors[event.anchor] = 1
        self._check(line)

    def _add_alias(self, anchor: str, line: int) -> None:
        """Count what an alias stands for."""
        for open_anchor, _ in self._open:
            if open_anchor == anchor:
                text = f"the alias *{anchor} refers to a value that contains it"
                raise YamlSyntaxError(text, line)
        values = self._anchors.get(anchor, 1)
        self.total += values

    def _check(self, line: int) -> None:
        if len(self._open) > MAX_DEPTH:
            raise YamlSyntaxError(_TOO_DEEP, line)
        if self.total <= MAX_VALUES:
            return
        much = f"more than {MAX_VALUES:,} values"
        if self._anchors:
            raise YamlSyntaxError(f"its aliases expand to {much}; write them out", line)
        raise YamlSyntaxError(f"{much}; split it into documents, or save JSON", line)


def without_unread(text: bytes) -> bytes:
    """A Node's or Pod's text without the lists that nothing here reads.

    They are most of it, and YAML is slow to parse. They are whole blocks of lines, recognised by
    indentation. Lines after them move, so use this text for values only.
    """
    if not _NODE_OR_POD.search(text):
        return text
    kept: list[bytes] = []
    begin = 0
    unread = _UNREAD.search(text)
    while unread:
        kept.append(text[begin : unread.start()])
        begin = _end_of_block(text, unread.end(), unread[1])
        unread = _UNREAD.search(text, begin)
    kept.append(text[begin:])
    return b"".join(kept)


def _end_of_block(text: bytes, begin: int, indentation: bytes) -> int:
    """Where the lines end that are the value of a key with this indentation.

    Its lines are those indented deeper, and the items of its list.
    """
    values = indentation + b" ", indentation + b"-"
    while text.startswith(values, begin):
        end = text.find(b"\n", begin)
        if end < 0:
            return len(text)  # the last line of a file that does not end with a line break
        begin = end + 1
    return begin


def locate(text: bytes, path: str, inside: str = "") -> tuple[str, int]:
    """Where a path of msgspec (`$.metadata.labels[...]`) is in YAML or JSON.

    The path with real keys, and its line. A key with dots in it is in brackets:
    `$.metadata.labels[example.com/rack]`. `inside` leads to the object that the path is about.
    Lines count from 1; line 1 where the text cannot be parsed.
    """
    outer = _PATH.findall(inside)
    _, _, inner_path = path.partition("$")
    inner = _PATH.findall(inner_path)
    if text.lstrip().startswith(b"{"):
        text = text.replace(b"\t", b" ")  # JSON may be indented by tabs, YAML may not
    try:
        node = compose(text)
    except YamlSyntaxError:
        node = None

    keys: list[str] = []
    line = node.start_mark.line + 1 if node else 1
    for name, index in (*outer, *inner):
        step = _child(node, name, index)
        if step is None:
            keys.append(name or f"[{index}]")
            continue
        key, node = step
        line = node.start_mark.line + 1
        keys.append(key)
    inner_keys = keys[len(outer) :]
    return _joined(inner_keys), line


def _child(node: Any, name: str, index: str) -> tuple[str, Any] | None:
    """The key and the node at one step of a path; None where there is none."""
    if isinstance(node, yaml.MappingNode):
        return _value_in(node, name, index)
    if isinstance(node, yaml.SequenceNode):
        return _item_in(node, index)
    return None


def _value_in(mapping: yaml.MappingNode, name: str, index: str) -> tuple[str, Any] | None:
    """The entry of a mapping that a step of a path names."""
    for key, value in mapping.value:
        # `[...]` is some value of a mapping: the one that is not text is the one at fault.
        is_at_fault = index == "..." and value.tag != f"{_TAG}str"
        if is_at_fault or key.value in (name, index):
            return str(key.value), value
    return None


def _item_in(sequence: yaml.SequenceNode, index: str) -> tuple[str, Any] | None:
    """The item of a list that a step of a path names."""
    if _INDEX.fullmatch(index) is None:
        return None
    place = int(index)
    items = sequence.value
    if place >= len(items):
        return None
    return f"[{index}]", items[place]


def _joined(steps: Sequence[str]) -> str:
    text = ""
    for step in steps:
        if text and not step.startswith("["):
            text += "."
        text += step
    return text
