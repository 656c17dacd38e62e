"""Objects out of files: JSON or YAML, lists or many documents, compressed or not, piece by piece.

What `kubectl get -o json` and `-o yaml` print is told by its layout and cut into objects without being read as a
whole; anything else is read a document at a time. A problem is noted and reading goes on behind it.
"""

import gzip
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

import msgspec

from toposcope.kube.listing import UNREADABLE
from toposcope.snapshot.cutting import Cutter
from toposcope.snapshot.problems import InputError, Place, Problem
from toposcope.snapshot.yaml_text import YamlSyntaxError, load, locate, without_bulk
from toposcope.topology.text import not_utf8, type_words

STDIN: Final = "-"
SUFFIXES: Final = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
"""What is read of a directory."""

_GZIP: Final = b"\x1f\x8b"
_PACKED: Final = b"TOPOSCOPE-SNAPSHOT"
_LONGEST_LOCATED: Final = 1 << 20
_BLANK: Final = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*")
_JSON: Final = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*[{\[]")
_JSON_ITEMS: Final = re.compile(rb'\{\r?\n +"apiVersion": "[^"\n]*",\r?\n( +)"items": \[\r?\n( +)(?=\{\r?\n)')
_YAML_ITEMS: Final = re.compile(rb"(?:(?:#.*|---[ \t]*|[ \t]*)\r?\n)*apiVersion: \S+\r?\nitems:\r?\n(?=- )")
_YAML_ITEM: Final = re.compile(rb"^(?:- |[^\s#-]|---)", re.MULTILINE)
_NAMED: Final = re.compile(rb'\{\s*"apiVersion":\s*"([^"\\]*)",\s*"kind":\s*"([^"\\]+)"')
"""How kubectl begins an object: what it is can be told without reading all of it."""
_EMPTY: Final = re.compile(rb"(?:---(?=\s|\Z)|#[^\n]*+|\s|\xef\xbb\xbf)*+\Z")
"""Possessive: of a file of comments, each step back would be kept in memory."""
_DOCUMENT: Final = re.compile(rb"^---(?=\s)", re.MULTILINE)
_JSON_NEXT: Final = re.compile(rb"\n(?=\{)")
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE: Final = re.compile(r" ?\(byte (\d+)\)")

_T = TypeVar("_T")
Tell = Callable[[Problem], None]
Count = Callable[[int], None]


class _Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _List(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | None = None


@lru_cache(maxsize=64)
def decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    """The decoder of a type, made once."""
    return msgspec.json.Decoder(cast("type[Any]", kind))


@dataclass(frozen=True, slots=True)
class Document:
    """One object of the Kubernetes API, not yet understood."""

    place: Place
    api_version: str
    kind: str
    text: bytes | msgspec.Raw
    """As it stands in the file: to find lines in, and for JSON what is decoded."""
    values: Any = None
    """What YAML made of it; None for JSON."""
    inside: str = ""
    """Where in the text the object stands (`.items[3]`); empty where it is all of it."""

    def read(self, kind: type[_T]) -> _T:
        """The object as this type. Raises BadInput with the field and its line."""
        try:
            if self.values is not None:
                return msgspec.convert(self.values, kind)
            found: _T = decoder(cast("Hashable", kind)).decode(self.text)
        except UNREADABLE as error:
            if self.values is None and not isinstance(error, msgspec.ValidationError):
                raise InputError(_malformed(self.place, bytes(self.text), error)) from error
            raise self.bad(error) from error
        return found

    def bad(self, error: Exception) -> InputError:
        """The error with its place: for an object that was read and makes no sense."""
        words, _, path = str(error).partition(" - at `")
        text = bytes(self.text) if len(memoryview(self.text)) <= _LONGEST_LOCATED else b""
        field, line = locate(text, path.rstrip("`"), self.inside) if path else ("", 1)
        return InputError(Problem(_down(self.place, line - 1), field, type_words(words)))


def _down(place: Place, lines: int) -> Place:
    """So many lines further down, where the line is known at all."""
    return replace(place, line=place.line + lines) if place.line else place


def documents(
    names: Iterable[str], tell: Tell, stdin: IO[bytes] | None = None, count: Count | None = None
) -> Iterator[Document]:
    """Every object of the Kubernetes API in files, directories and standard input; see `all_documents`.

    What says no kind goes to `tell` too.
    """
    for document in all_documents(names, tell, stdin, count):
        if document.kind:
            yield document
        else:
            tell(kindless(document))


def kindless(document: Document) -> Problem:
    """What is to be said of a document without a kind that nobody knows."""
    return Problem(document.place, "kind", "is missing; what object is this?")


def all_documents(
    names: Iterable[str], tell: Tell, stdin: IO[bytes] | None = None, count: Count | None = None
) -> Iterator[Document]:
    """Every document in files, directories (all that is below them) and standard input (`-`), in order.

    Some are no objects of the Kubernetes API and have no kind. What cannot be read goes to `tell`; the rest is yielded
    all the same. `count` is told how many bytes have been read.
    """
    for name in names:
        if name == STDIN:
            yield from _stream("standard input", stdin or sys.stdin.buffer, tell, count)
            continue
        try:
            for path in _files(Path(name)):
                with path.open("rb") as file:
                    yield from _stream(str(path), file, tell, count)
        except OSError as error:
            tell(Problem(Place(str(error.filename or name)), "", error.strerror or str(error)))


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.name.endswith(SUFFIXES) and each.is_file())
    if not found:
        raise FileNotFoundError(2, f"no file here that ends in {', '.join(SUFFIXES)}", str(path))
    return found


def _stream(name: str, stream: IO[bytes], tell: Tell, count: Count | None = None) -> Iterator[Document]:
    head = stream.read(len(_GZIP))
    if head == _PACKED[: len(_GZIP)]:
        head += stream.read(len(_PACKED) - len(head))
        if head == _PACKED:
            tell(Problem(Place(name), "", "what toposcope save wrote: give it as a file of its own, --from FILE"))
            return
    joined: Any = _Joined(head, stream, count or _ignored)
    cutter = Cutter(cast("IO[bytes]", gzip.GzipFile(fileobj=joined)) if head == _GZIP else joined)
    try:
        if cutter.starts_with(_JSON):
            yield from _json_documents(name, cutter, tell)
        else:
            yield from _yaml_documents(name, cutter, tell)
    except (EOFError, gzip.BadGzipFile) as error:
        tell(Problem(Place(name), "", f"not a whole gzip file: {error}"))


class _Joined:
    """A stream whose first bytes have been looked at already; standard input cannot be wound back."""

    def __init__(self, head: bytes, stream: IO[bytes], count: Count) -> None:
        self._head = head
        self._stream = stream
        self._count = count

    def read(self, size: int) -> bytes:
        head, self._head = self._head, b""
        chunk = head + self._stream.read(max(0, size - len(head)))
        self._count(len(chunk))
        return chunk


def _ignored(_count: int) -> None:
    pass


def _json_documents(name: str, cutter: Cutter, tell: Tell) -> Iterator[Document]:
    number = 0
    while True:
        if blank := cutter.starts_with(_BLANK):
            cutter.take(len(blank[0]))
        number += 1
        if layout := cutter.starts_with(_JSON_ITEMS):
            cutter.take(len(layout[0]))
            yield from _json_items(Place(name, number), cutter, layout, tell)
            continue
        place = Place(name, number, line=cutter.line)
        text = cutter.until(_JSON_NEXT)
        if text is None:
            text = cutter.rest()
            if text:
                yield from _json_whole(place, text, tell)
            return
        yield from _json_whole(place, text, tell)


def _json_items(place: Place, cutter: Cutter, layout: re.Match[bytes], tell: Tell) -> Iterator[Document]:
    """The items of a list printed on many lines: no string of JSON holds a line break, so indentation tells."""
    outer, inner = layout[1], layout[2]
    between = re.compile(rb"\n" + inner + rb"\}(?:,\r?\n" + inner + rb"(?=\{)|\r?\n" + outer + rb"\])")
    closing = re.compile(rb"\n\}(?=\s|\Z)")
    item = 0
    while True:
        item += 1
        line = cutter.line
        text = cutter.until(between)
        if text is None:
            tell(Problem(replace(place, line=line), "items", "the list does not end; is the file complete?"))
            cutter.rest()
            return
        mark = cutter.starts_with(between)
        end = cutter.take(len(mark[0])) if mark else b""
        yield from json_object(replace(place, item=item, line=line), text + b"\n" + inner + b"}", tell)
        if end.endswith(b"]"):
            cutter.until(closing)
            cutter.take(2)
            return


def json_object(
    place: Place, text: bytes | msgspec.Raw, tell: Tell, kind: str = "", version: str = ""
) -> Iterator[Document]:
    """One object, or the items of a list; `kind` and `version` are for items of a typed list, which name neither."""
    named = _NAMED.match(text)
    if named and not named[2].endswith(b"List"):
        yield Document(place, named[1].decode(errors="replace"), named[2].decode(errors="replace"), text)
        return
    try:
        head = decoder(_Head).decode(text)
        if head.kind.endswith("List") or (not head.kind and not kind):
            found = decoder(_List).decode(text)
            if found.items is not None:
                for item, each in enumerate(found.items, 1):
                    yield from json_object(
                        replace(place, item=item, line=0), each, tell, *_of_list(found.kind, found.api_version)
                    )
                return
    except UNREADABLE as error:
        tell(_malformed(place, bytes(text), error))
        return
    yield Document(place, head.api_version or version, head.kind or kind, text)


def _of_list(kind: str, version: str) -> tuple[str, str]:
    """Kind and version of the items of a typed list such as NodeList."""
    return (kind.removesuffix("List"), version) if kind != "List" else ("", "")


def _malformed(place: Place, text: bytes, error: Exception) -> Problem:
    if isinstance(error, UnicodeDecodeError):
        return Problem(place, "", not_utf8(error))
    if isinstance(error, RecursionError):
        return Problem(place, "", "nested too deeply")
    at = _BYTE.search(str(error))
    line = text.count(b"\n", 0, int(at[1])) if at else 0
    words = _BYTE.sub("", str(error)).partition(" - at `")[0] or type(error).__name__
    return Problem(_down(place, line), "", type_words(words))


def _json_whole(place: Place, text: bytes, tell: Tell) -> Iterator[Document]:
    """One JSON document, or several on one line."""
    view = memoryview(text)
    while view:
        end = len(view)
        try:
            decoder(msgspec.Raw).decode(view)
        except UNREADABLE as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                tell(_malformed(place, bytes(view), error))
                return
            end = int(trailing[1]) - 1  # msgspec counts from 1 here
        yield from json_object(place, text if end == len(text) else bytes(view[:end]), tell)
        view = view[end:]


def _yaml_documents(name: str, cutter: Cutter, tell: Tell) -> Iterator[Document]:
    number = 0
    while True:
        if layout := cutter.starts_with(_YAML_ITEMS):
            number += 1
            cutter.take(len(layout[0]))
            yield from _yaml_items(Place(name, number), cutter, tell)
            continue
        line = cutter.line
        # A document begins with its own mark, which does not end it.
        text = cutter.until(_DOCUMENT, skip=3)
        last = text is None
        text = cutter.rest() if text is None else text
        if not _EMPTY.match(text):
            number += 1
            yield from _yaml_document(Place(name, number, line=line), text, tell)
        if last:
            return


def _yaml_items(place: Place, cutter: Cutter, tell: Tell) -> Iterator[Document]:
    """The items of a list as kubectl prints it: each begins with a dash in the first column."""
    item = 0
    dash = re.compile(rb"- ")
    while cutter.starts_with(dash):
        item += 1
        line = cutter.line
        text = cutter.until(_YAML_ITEM, skip=2)
        text = cutter.rest() if text is None else text
        # The dash becomes a blank, so that the item is a document of its own with every column where it was.
        yield from _yaml_document(replace(place, item=item, line=line), b"  " + text[2:], tell)
    # What is left of the list: its kind and metadata.
    if cutter.until(_DOCUMENT) is None:
        cutter.rest()


def _yaml_document(place: Place, text: bytes, tell: Tell) -> Iterator[Document]:
    if text.lstrip().startswith(b"{") and b"\n---" not in text:
        try:
            decoder(msgspec.Raw).decode(text)
        except UNREADABLE:
            pass  # YAML's own braces
        else:
            yield from json_object(place, text, tell)
            return
    try:
        values = load(without_bulk(text))
    except YamlSyntaxError:
        # Again with every line in its place.
        try:
            values = load(text)
        except YamlSyntaxError as error:
            tell(Problem(_down(place, error.line - 1), "", str(error)))
            return
    if values is not None:
        yield from _values(place, text, values, tell)


def _values(
    place: Place, text: bytes, values: Any, tell: Tell, kind: str = "", version: str = "", inside: str = ""
) -> Iterator[Document]:
    if not isinstance(values, dict):
        tell(Problem(place, "", "no object of the Kubernetes API: it needs apiVersion, kind and metadata"))
        return
    own = values.get("kind")
    items = values.get("items")
    if "items" in values and (own is None or str(own).endswith("List")):
        if not isinstance(items, list | None):
            tell(Problem(place, f"{inside}.items".lstrip("."), "is no list"))
            return
        of = _of_list(str(own or "List"), str(values.get("apiVersion", "")))
        for item, each in enumerate(items or (), 1):
            yield from _values(replace(place, item=item), text, each, tell, *of, f"{inside}.items[{item - 1}]")
        return
    api_version = str(values.get("apiVersion") or version)
    yield Document(place, api_version, str(own or kind), text, values, inside)
