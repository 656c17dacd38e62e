"""Subjects of fuzzing: how cases are generated, and an attempt that checks the outcome."""

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import yaml
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")
Outcome = Literal["taken", "refused"]
Attempt = Callable[[Any], Outcome]
_SAMPLES: Final = Path(__file__).parent / "samples"

_MOST_CHARACTERS: Final = 4000
_EDGES: Final = (0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308)
_PYTHON_TALK: Final = re.compile(
    r"Traceback|object has no attribute|NoneType|unhashable|unsupported operand"
    r"|not subscriptable|not iterable|index out of range|unpack|codec can't"
    r"|\b(?:Key|Type|Value|Attribute|Index|Recursion|Unicode\w*)Error\b"
    r"|<\w+ object at 0x|positional argument|set_int_max_str_digits|dict\b.*\bkeys\b"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


class BrokenInvariantError(AssertionError):
    """An invariant that an attempt found broken."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of input. `attempt` raises whatever goes wrong: any exception is a finding."""

    name: str
    promise: str
    """What holds for every case, for the table."""
    cases: SearchStrategy[Any]
    attempt: Attempt
    is_guided: bool = False
    """Whether coverage finds more than chance: where we read text in Python."""


SUBJECTS: Final[dict[str, Subject]] = {}
"""By name, in the order of the table."""


def subject(
    promise: str, cases: SearchStrategy[Any], *, is_guided: bool = False
) -> Callable[[Attempt], Attempt]:
    """Have a function be the attempt of the subject of its name."""

    def add(attempt: Attempt) -> Attempt:
        SUBJECTS[attempt.__name__] = Subject(
            attempt.__name__,
            promise,
            cases,
            attempt,
            is_guided,
        )
        return attempt

    return add


def sample(name: str) -> str:
    """A good input of `samples/`, to be spoiled."""
    return (_SAMPLES / name).read_text(encoding="utf-8")


def documents(name: str) -> list[Any]:
    """The documents of such a file."""
    return list(yaml.load_all(sample(name), yaml.CSafeLoader))


def words(kind: str) -> tuple[str, ...]:
    """What may stand in texts of a kind, from `samples/words.yaml`."""
    return tuple(yaml.load(sample("words.yaml"), yaml.CSafeLoader)[kind])


def refusal(message: object) -> Outcome:
    """Check that somebody who did not write the program can act on a refusal.

    Raises BrokenInvariantError.
    """
    text = str(message)
    length = len(text)
    words = text.split()
    if not words:
        raise BrokenInvariantError("refused without a word")
    if length > _MOST_CHARACTERS:
        raise BrokenInvariantError(f"refused with {length} characters: {text[:200]!r}...")
    if len(words) < 3:  # noqa: PLR2004 - fewer words are no sentence
        raise BrokenInvariantError(f"refused in no sentence: {text!r}")

    python_talk = _PYTHON_TALK.search(text)
    if python_talk:
        words_of_python = python_talk[0]
        raise BrokenInvariantError(
            f"refused in the words of Python ({words_of_python!r}): {text!r}"
        )
    control = _CONTROL.search(text)
    if control:
        character = control[0]
        raise BrokenInvariantError(f"refused with a control character ({character!r}): {text!r}")
    return "refused"


def held(condition: object, otherwise: str) -> None:
    """Raise BrokenInvariantError unless the condition holds."""
    if not condition:
        raise BrokenInvariantError(otherwise)


NASTY: Final = (
    "", " ", ".", "-", "/", "//", "..", "../../etc/passwd", "no-topology", "null", "true",
    "0", "-1", "1e999", "NaN", "9" * 400, "0x1f", "a" * 63, "a" * 64, "a" * 254, "a.b", "a..b",
    "rack-1\n", "rack-1\r\nX-Header: yes", "\x00",
    "\x1b[31mred\x1b[0m", "\u202egnp.exe", "ﬁ", "é", "e\u0301", "٣", "😀", "\ud800",
    "<script>alert(1)</script>",
    "{{ .Values }}", "${HOME}", "$(id)", "' OR 1=1 --", "%s%n",
    "00000000-0000-0000-0000-000000000000.0",
    "gpu.topology/nvlink-domain", "kubernetes.io/hostname", "2025-01-15", "10m", "-5m",
    "1" * 30 + "h",
)  # fmt: skip


def strings(*likely: str) -> SearchStrategy[str]:
    """Any string, with those that have broken programs before, and the likely ones of the field."""
    return st.one_of(st.sampled_from([*likely, *NASTY]), st.text(max_size=80))


def scalars(*likely: Any) -> SearchStrategy[Any]:
    """Any value of JSON that is neither a list nor an object."""
    texts = [str(value) for value in likely]
    numbers = st.one_of(
        st.sampled_from(_EDGES),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
    )
    return st.one_of(
        st.none(),
        st.booleans(),
        numbers,
        strings(*texts),
    )


def values(*likely: Any) -> SearchStrategy[Any]:
    """Any value of JSON."""
    return st.recursive(
        scalars(*likely),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(strings(*map(str, likely)), inner, max_size=4),
        ),
        max_leaves=8,
    )


def spoiled(documents: Sequence[Any], *likely: str) -> SearchStrategy[Any]:
    """Good documents with up to four parts gone, doubled, moved, retyped or renamed."""

    @st.composite
    def draw_one(draw: DrawFn) -> Any:
        chosen = _one_of(draw, documents)
        document = copy.deepcopy(chosen)
        up_to_four = st.integers(0, 4)
        for _ in range(draw(up_to_four)):
            document = _spoil(draw, document, likely)
        return document

    return draw_one()


_WAYS_TO_SPOIL: Final = (
    "value",
    "value",
    "scalar",
    "gone",
    "wrapped",
    "doubled",
    "renamed",
    "moved",
)


def _spoil(draw: DrawFn, document: Any, likely: Sequence[str]) -> Any:
    places = list(_places(document))
    if not places:
        return draw(values(*likely))

    holder, at = _one_of(draw, places)
    match draw(st.sampled_from(_WAYS_TO_SPOIL)):
        case "value":
            holder[at] = draw(values(*likely))
        case "scalar":
            holder[at] = draw(scalars(*likely))
        case "gone":
            del holder[at]
        case "wrapped":
            value = holder[at]
            wrapped = st.sampled_from([[value], {"value": value}])
            holder[at] = draw(wrapped)
        case "doubled" if isinstance(holder, list):
            value = copy.deepcopy(holder[at])
            times = draw(st.sampled_from([1, 2, 40]))
            holder.extend([value] * times)
        case "renamed" | "doubled" if isinstance(holder, dict):
            name = draw(strings(*likely))
            holder[name] = holder.pop(at)
        case _:
            other, there = _one_of(draw, places)
            holder[at] = _copy_of(other, there)
    return document


def _one_of(draw: DrawFn, items: Sequence[T]) -> T:
    """One of them: unlike `sampled_from`, it shows none of them when a case is printed."""
    last = len(items) - 1
    number = draw(st.integers(0, last))
    return items[number]


def _copy_of(holder: Any, at: Any) -> Any:
    """A copy of what is at a place, None where it is gone."""
    is_present = at in holder if isinstance(holder, dict) else at < len(holder)
    if not is_present:
        return None
    return copy.deepcopy(holder[at])


def _places(document: Any) -> Any:
    """Every part of a document, as what holds it and where."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield document, name
            yield from _places(value)
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield document, number
            yield from _places(value)


def text_of(samples: Sequence[str], words: Sequence[str]) -> SearchStrategy[str]:
    """Good texts with lines and words gone, doubled, swapped or replaced; and any text at all."""

    @st.composite
    def draw_one(draw: DrawFn) -> str:
        text = draw(st.sampled_from(samples))
        lines = text.split("\n")
        up_to_five = st.integers(0, 5)
        for _ in range(draw(up_to_five)):
            last = len(lines) - 1
            at = draw(st.integers(0, last))
            lines[at : at + 1] = _line(draw, lines, at, words)
            if not lines:
                lines.append("")
        return "\n".join(lines)

    return st.one_of(draw_one(), st.text(max_size=200))


def _line(draw: DrawFn, lines: Sequence[str], at: int, words: Sequence[str]) -> list[str]:
    line = lines[at]
    ways = ["gone", "doubled", "swapped", "cut", "word", "word", "word", "indented"]
    match draw(st.sampled_from(ways)):
        case "gone":
            return []
        case "doubled":
            return [line, line]
        case "swapped":
            return [_one_of(draw, lines)]
        case "cut":
            length = draw(st.integers(0, len(line)))
            return [line[:length]]
        case "indented":
            indent = draw(st.sampled_from(["  ", "\t", "- ", "{"]))
            return [indent + line]

    parts = line.split(" ")
    word = draw(strings(*words))
    number = draw(st.integers(0, len(parts) - 1))
    parts[number] = word
    return [" ".join(parts)]


def encoded(text: SearchStrategy[str]) -> SearchStrategy[bytes]:
    """Texts as bytes, some of them no UTF-8, some cut, some with a byte changed."""
    ways = st.sampled_from(["whole", "whole", "whole", "cut", "changed"])

    @st.composite
    def draw_one(draw: DrawFn) -> bytes:
        content = draw(text).encode("utf-8", "surrogatepass")
        size = len(content)
        match draw(ways):
            case "cut":
                end = draw(st.integers(0, size))
                return content[:end]
            case "changed" if content:
                at = draw(st.integers(0, size - 1))
                byte = draw(st.integers(0, 255))
                before = content[:at]
                after = content[at + 1 :]
                return before + bytes([byte]) + after
        return content

    return draw_one()
