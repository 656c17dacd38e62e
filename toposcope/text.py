"""Text in messages, and JSON in annotations, requests and log lines.

JSON by the standard library: the documents are small, and a faster package costs every GPU node
3 MB.
"""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, Final, NewType

_TYPES: Final = (
    ("`str`", "text"),
    ("`object`", "a mapping"),
    ("`array`", "a list"),
    ("`int`", "a number"),
    ("`float`", "a number"),
    ("`bool`", "true or false"),
    ("`null`", "nothing"),
)
_UNSAFE: Final = (
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Controls, what ends lines, what changes the direction of text (one name then looks like another),
half characters."""
_NOT_TEXT: Final = (
    "Expected `str`, got `int`",
    "Expected `str`, got `float`",
    "Expected `str`, got `bool`",
)
"""Type errors of values that are text once they are in quotes."""

_NUMBERS: Final = re.compile(r"([0-9]{1,9})", re.ASCII)
_DIGITS: Final = re.compile(r"([0-9]+)")


def natural(name: str) -> tuple[list[str | int], str]:
    """Sorts as nvidia-smi's NIC legend does: numbers as numbers, letters whatever their case.

    NVIDIA does not document it. Published legends run mlx5_9, mlx5_10, mlx5_bond_0; ibp134s0,
    rocep32s0f0; rocep1s0f1, roceP2p1s0f0.
    """
    # Words and numbers alternate, a word first: no number is ever compared with a word.
    words = _NUMBERS.split(name.casefold())
    parts: list[str | int] = []
    for word in words:
        if word.isdecimal():
            parts.append(int(word))
        else:
            parts.append(word)
    return parts, name


def by_numbers(name: str) -> tuple[tuple[str, ...], tuple[int, ...], str]:
    """A key that sorts names with equal words by their numbers: `node2` before `node10`."""
    pieces = _DIGITS.split(name)
    words = pieces[::2]
    digits = pieces[1::2]
    numbers = map(int, digits)
    return tuple(words), tuple(numbers), name


def plural(count: int, one: str, several: str = "") -> str:
    """Singular or plural: `node`, `nodes`."""
    if count == 1:
        return one
    return several or f"{one}s"


def listing(names: Sequence[str], most: int, total: int | None = None) -> str:
    """The first `most` names in one line, and how many more of `total` there are.

    By default the total is that of the given names.
    """
    shown = names[:most]
    if total is None:
        total = len(names)
    text = ", ".join(shown)
    more = total - len(shown)
    if more <= 0:
        return text
    return f"{text} and {more} more"


def enumerated(names: Sequence[str], word: str = "and") -> str:
    """All names in a sentence: `rack, block and zone`."""
    *others, last = names
    if not others:
        return last
    return f"{', '.join(others)} {word} {last}"


def first_few(names: Sequence[str], few: int = 3) -> str:
    """The first few names."""
    shown = names[:few]
    text = ", ".join(shown)
    if len(names) <= few:
        return text
    return f"{text}, ..."


Command = NewType("Command", str)
"""A command that people copy into a shell; made by `shell` alone, so that nothing in it comes from
outside unquoted."""


def shell(template: str, *values: str) -> Command:
    """A command with each `{}` of the template replaced by a value, quoted for a shell.

    A value that would be an option, or that no terminal shows as it is, becomes NAME: no object is
    called so.
    """
    words = []
    for value in values:
        word = "NAME"
        if _is_word(value):
            word = shlex.quote(value)
        words.append(word)
    command = template.format(*words)
    return Command(command)


def _is_word(value: str) -> bool:
    if value.startswith("-") or not value.isprintable():
        return False
    return escaped(value) == value


def escaped(text: str, kept: str = "") -> str:
    r"""Text from outside for a terminal, pipe or log line, which obey some of it.

    Such characters as `\u001b`. JSON and double-quoted YAML read them back. `kept` is a pattern of
    what stays. All such output comes through here.
    """
    pattern = _UNSAFE
    if kept:
        pattern = f"(?!{kept}){_UNSAFE}"
    # linear: single characters, and styles of a few literal codes
    return re.sub(pattern, _code_of, text)


def _code_of(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return f"\\u{code:04x}"


def escaped_lines(text: str) -> str:
    """The text with every line of it escaped."""
    lines = text.split("\n")
    return "\n".join(map(escaped, lines))


def printable(text: str, most: int = 200) -> str:
    """Foreign text for a terminal or log: one line, no control characters, not too long."""
    line = " ".join(text.split())
    shown = escaped(line)
    if len(shown) <= most:
        return shown
    head = shown[: most - 3]
    return f"{head}..."


LONGEST_MESSAGE: Final = 32 << 10
"""Characters of a message that an object carries: Kubernetes' own limit for those of conditions
(metav1.Condition)."""


def bounded(text: str) -> str:
    """A message of an object, cut, and saying so, where it is longer than a condition's may be."""
    length = len(text)
    if length <= LONGEST_MESSAGE:
        return text
    head = text[:LONGEST_MESSAGE]
    kept = LONGEST_MESSAGE >> 10
    return f"{head}... (cut after {kept} KiB of {length:,} characters)"


def not_utf8(error: UnicodeDecodeError) -> str:
    """What is wrong with bytes that should be text."""
    offset = error.start
    byte = error.object[offset]
    return f"not UTF-8: byte 0x{byte:02x} at offset {offset}; save the file as UTF-8 text"


def yaml_words(words: str) -> str:
    """A YAML library's error without its jargon."""
    if "int_max_str_digits" in words:
        return "a number has too many digits; put it in quotes if it is text"
    plain = words.replace("found unhashable key", "a list or a mapping is used as a key")
    return printable(plain)


def type_words(words: str) -> str:
    """A type error of msgspec in the words of YAML."""
    hint = ""
    if words.startswith(_NOT_TEXT):
        hint = " (put it in quotes)"
    for theirs, ours in _TYPES:
        words = words.replace(theirs, ours)
    return f"{words}{hint}"


def compact(document: Any) -> str:
    """A document of JSON's types without spaces; only what JSON must escape is escaped."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def parse(text: str | bytes) -> Any:
    """The document in a text.

    Raises ValueError (half a surrogate pair too), and RecursionError for endless nesting.
    """
    if isinstance(text, bytes):
        text = str(text, "utf-8")
    document = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        compact(document).encode()
    return document
