"""Kubernetes objects from files: JSON or YAML, lists or many documents, gzipped or not, in bounded memory.

The lists that `kubectl get -o json` and `-o yaml` print are recognised by their layout and cut into items: a parser
needs a whole list in memory, and a large cluster's is gigabytes. No string of JSON holds a line break, so indentation
tells where an item ends. Anything else is read a document at a time. A problem is reported, and reading goes on.
"""

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

import msgspec

from toposcope.api.yaml_text import (
    MAX_DEPTH,
    YamlSyntaxError,
    check_depth,
    load,
    locate,
    without_unread,
)
from toposcope.kube.listing import UNREADABLE
from toposcope.snapshot.cutter import BYTES_PER_OBJECT, LIMIT, Cutter, TooLargeError
from toposcope.snapshot.problems import InputError, Place, Problem
from toposcope.snapshot.sources import STDIN, Prefixed, Source
from toposcope.text import not_utf8, type_words

SUFFIXES: Final = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
"""What is read of a directory."""

_GZIP: Final = b"\x1f\x8b"
_PACKED: Final = b"TOPOSCOPE-SNAPSHOT"
_LONGEST_LOCATED: Final = 1 << 20
_OF_OBJECT: Final = 16
_OF_YAML: Final = 4
"""Parts of the limit that a JSON object and a YAML document may have.

No API server takes an object of 16 MiB.
"""
_DEEPEST_LIST: Final = 8
"""Lists within lists: each is parsed once more for every list around it, and kubectl prints none."""
_BLANK: Final = re.compile(
    rb"(?:[ \t]*+(?:\r?\n|\xef\xbb\xbf|#[^\n]*+\n|---[ \t\r]*+(?:#[^\n]*+)?\n))*+"
)
"""Whole lines that hold no object: blank ones, comments, and marks with nothing else on their line.

Possessive, as `_EMPTY`: each line is read once, and no step of it is kept in memory."""
# linear: applied at one place, never searched for
_JSON: Final = re.compile(rb"[ \t]*+(?=[{\[])")
_JSON_ITEMS: Final = re.compile(
    rb'\{(\r?\n) {1,64}"apiVersion": "[^"\n]{0,256}",\1( {1,64})"items": \[\1( {1,64})(?=\{\1)'
)
"""Bounded, because the indentation becomes part of what `_json_items` looks for."""
_YAML_ITEMS: Final = re.compile(rb"apiVersion: \S+\r?\nitems:\r?\n(?=- )")
_YAML_DASH: Final = re.compile(rb"- ")
_YAML_ITEM: Final = re.compile(rb"^(?:- |[^\s#-]|---)", re.MULTILINE)
_NAMED: Final = re.compile(rb'\{\s*"apiVersion":\s*"([^"\\]*)",\s*"kind":\s*"([^"\\]+)"')
"""How kubectl begins an object: its kind is known without parsing all of it."""
_EMPTY: Final = re.compile(rb"(?:---(?=\s|\Z)|#[^\n]*+|\s|\xef\xbb\xbf)*+\Z")
_DOCUMENT: Final = re.compile(rb"^---(?=\s)", re.MULTILINE)
_JSON_NEXT: Final = re.compile(rb"\n(?=\{|---\s)")
_MARK: Final = re.compile(rb"\n---")
_JSON_END: Final = re.compile(rb"\n\}(?=\s|\Z)")
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_GAP: Final = re.compile(rb"[\s,]*+")
_TRUNCATED: Final = "Input data was truncated"
_BYTE: Final = re.compile(r" ?\(byte (\d+)\)")

_T = TypeVar("_T")
Report = Callable[[Problem], None]
TakeList = Callable[[Place, bytes], int]
"""Given a JSON list of objects, many at a time: takes all and returns how many, or takes none and returns 0."""


class _Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _List(_Head, frozen=True, gc=False, rename="camel"):
    items: msgspec.Raw = msgspec.Raw(b"null")


@lru_cache(maxsize=64)
def decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    """The decoder of a type, made once."""
    return msgspec.json.Decoder(cast("type[Any]", kind))


@dataclass(frozen=True, slots=True)
class Document:
    """One object of the Kubernetes API, not decoded yet."""

    place: Place
    api_version: str
    kind: str
    text: bytes | msgspec.Raw
    """As it stands in the file: to find lines in, and for JSON what is decoded."""
    values: Any = None
    """Parsed YAML; None for JSON."""
    inside: str = ""
    """Where in the text the object is (`.items[3]`); empty where it is all of it."""

    @property
    def group(self) -> str:
        """Its API group; empty: the core group."""
        return self.api_version.rpartition("/")[0]

    def read(self, kind: type[_T]) -> _T:
        """The object as this type. Raises InputError with the field and its line."""
        try:
            if self.values is not None:
                return msgspec.convert(self.values, kind)
            check_text(bytes(self.text))
            decoded: _T = decoder(cast("Hashable", kind)).decode(self.text)
            if kind is dict and self._may_be_deep:
                check_depth(decoded)
        except YamlSyntaxError as error:
            raise InputError(Problem(self.place, "", str(error))) from error
        except UNREADABLE as error:
            if self.values is None and not isinstance(error, msgspec.ValidationError):
                raise InputError(_malformed(self.place, bytes(self.text), error)) from error
            raise self.bad(error) from error
        return decoded

    @property
    def _may_be_deep(self) -> bool:
        """Whether it has as many brackets as the deepest document may nest: counting is cheap, and most have fewer."""
        text = bytes(self.text)
        return text.count(b"{") + text.count(b"[") > MAX_DEPTH

    def bad(self, error: Exception) -> InputError:
        """The error with its place, for an object that parses and makes no sense."""
        words, _, path = str(error).partition(" - at `")
        text = bytes(self.text) if len(memoryview(self.text)) <= _LONGEST_LOCATED else b""
        field, line = locate(text, path.rstrip("`"), self.inside) if path else ("", 1)
        return InputError(Problem(_down(self.place, line - 1), field, type_words(words)))


def check_text(text: bytes) -> None:
    """Raise UnicodeDecodeError for bytes that are no UTF-8: msgspec looks only at the strings that a type has."""
    if not text.isascii():
        text.decode()


def _down(place: Place, lines: int) -> Place:
    """So many lines further down, where the line is known at all."""
    return replace(place, line=place.line + lines) if place.line else place


def documents(
    names: Iterable[str | Source],
    report: Report,
    stdin: IO[bytes] | None = None,
    on_read: Callable[[int], None] | None = None,
    take_list: TakeList | None = None,
    limit: int = LIMIT,
    *,
    of_any_kind: bool = False,
) -> Iterator[Document]:
    """Every Kubernetes object in files, directories (recursively) and standard input (`-`), in order.

    What cannot be read, or has no kind, goes to `report`; with `of_any_kind` what has none is yielded too. `on_read`
    gets the number of bytes read each time. `limit` is how many bytes one document may have.
    Objects that `take_list` takes are not yielded; with it, lines are not counted, which takes as long as parsing.
    """
    reader = partial(_Reader, report, take_list, limit, of_any_kind)
    for given in names:
        source = given if isinstance(given, Source) else Source(given)
        if source.name == STDIN:
            yield from reader("standard input").read(stdin or sys.stdin.buffer, on_read)
            continue
        try:
            for file in _files(source):
                with file.opened() as stream:
                    yield from reader(file.name).read(stream, on_read)
        except OSError as error:
            report(
                Problem(Place(str(error.filename or source.name)), "", error.strerror or str(error))
            )


def kindless(document: Document) -> Problem:
    """The problem of a document that has no kind."""
    return Problem(document.place, "kind", "is missing; what object is this?")


def _files(source: Source) -> Sequence[Source]:
    """The source itself, or the files of a directory. Raises OSError where it has none."""
    path = Path(source.name)
    if source.stream is not None or not path.is_dir():
        return [source]
    files = sorted(
        file for file in path.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file()
    )
    if not files:
        raise FileNotFoundError(2, f"no file here that ends in {', '.join(SUFFIXES)}", str(path))
    return [Source(str(file)) for file in files]


@dataclass
class _Reader:
    """One file."""

    _report: Report
    _take_list: TakeList | None
    _limit: int
    _of_any_kind: bool
    _name: str
    _objects: int = 0

    def read(
        self, stream: IO[bytes] | Prefixed, on_read: Callable[[int], None] | None
    ) -> Iterator[Document]:
        head = stream.read(len(_GZIP))
        if head == _PACKED[: len(_GZIP)]:
            head += stream.read(len(_PACKED) - len(head))
            if head == _PACKED:
                text = "written by toposcope save: give it as a file of its own, --from FILE"
                self._report(Problem(Place(self._name), "", text))
                return
        peeked: Any = Prefixed(head, stream, on_read)
        if head == _GZIP:
            peeked = gzip.GzipFile(fileobj=peeked)
        cutter = Cutter(peeked, count_lines=self._take_list is None, limit=self._limit)
        try:
            for document in self._stream(cutter):
                if document.kind or self._of_any_kind:
                    yield document
                else:
                    self._report(kindless(document))
        except TooLargeError as error:
            self._report(Problem(Place(self._name), "", str(error)))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._report(Problem(Place(self._name), "", f"not a whole gzip file: {error}"))

    def _stream(self, cutter: Cutter) -> Iterator[Document]:
        """JSON and YAML documents in any order."""
        number = 0
        while True:
            blank = cutter.starts_with(_BLANK)
            before = blank[0] if blank else b""
            if json := cutter.starts_with(_JSON, after=len(before)):
                cutter.skip(len(before) + len(json[0]))
                number = yield from self._json(cutter, number)
            elif layout := cutter.starts_with(_YAML_ITEMS, after=len(before)):
                number += 1
                cutter.take(len(before) + len(layout[0]))
                yield from self._yaml_items(Place(self._name, number), cutter)
            else:
                # What ends with the last mark is empty: each document looks at the lines before it
                # once.
                cutter.skip(before.rfind(b"\n---") + 1)
                line = cutter.line
                # A document begins with its own `---`, which does not end it.
                text = cutter.until(_DOCUMENT, skip=3)
                last = text is None
                text = cutter.rest() if text is None else text
                if not _EMPTY.match(text):
                    number += 1
                    yield from self._yaml_document(Place(self._name, number, line=line), text)
                if last:
                    return

    def _json(self, cutter: Cutter, number: int) -> Generator[Document, None, int]:
        """A list as kubectl prints it, or other JSON; returns the number of the last document."""
        layout = cutter.starts_with(_JSON_ITEMS)
        if layout is None:
            return (yield from self._json_documents(cutter, number))
        cutter.take(len(layout[0]))
        yield from self._json_items(Place(self._name, number + 1), cutter, layout)
        return number + 1

    def _json_documents(self, cutter: Cutter, number: int) -> Generator[Document, None, int]:
        """JSON documents up to where one ends with its line, or to a mark; returns the number of the last one.

        A line that begins with a brace may belong to the document before it: then twice as much is read.
        """
        pieces: list[bytes] = []
        size, enough = 0, 1
        place = Place(self._name, number, line=cutter.line)
        while True:
            piece = cutter.until(_JSON_NEXT, skip=1)
            pieces.append(cutter.rest() if piece is None else piece)
            marked = bool(cutter.starts_with(_MARK))
            cutter.skip(marked)  # the mark begins a line
            complete = marked or piece is None
            size += len(pieces[-1])
            cutter.check(size)
            if size < enough and not complete:
                continue
            text, begin = b"".join(pieces), 0
            while not _EMPTY.match(text, begin):
                begin, before = _after_blank(text, begin), begin
                place = replace(_down(place, text.count(b"\n", before, begin)), document=number + 1)
                end = size
                try:
                    decoder(msgspec.Raw).decode(memoryview(text)[begin:])
                except UNREADABLE as error:
                    trailing = _TRAILING.search(str(error))
                    if trailing is None and str(error) == _TRUNCATED and not complete:
                        break
                    if trailing is None:
                        yield from self._braces(place, text[begin:], error)
                        return number + 1
                    end = begin + int(trailing[1]) - 1  # msgspec counts from 1 here
                yield from self._json_object(place, text[begin:end])
                number += 1
                place, begin = _down(place, text.count(b"\n", begin, end)), end
            else:
                return number
            pieces, size = [text[begin:]], size - begin
            enough = 2 * size

    def _braces(self, place: Place, text: bytes, error: Exception) -> Iterator[Document]:
        """YAML in braces, else malformed JSON."""
        try:
            values = load(text) if len(text) <= _LONGEST_LOCATED else None
        except YamlSyntaxError:
            values = None
        if isinstance(values, dict):
            yield from self._yaml_object(place, text, values)
        else:
            self._report(_malformed(place, text, error))

    def _json_items(
        self, place: Place, cutter: Cutter, layout: re.Match[bytes]
    ) -> Iterator[Document]:
        """The items of a list on many lines, as kubectl prints it; many at a time, where somebody takes lists."""
        newline, outer, inner = layout.groups()
        closing, separator, opening = newline + inner + b"}", b"," + newline + inner, b"{" + newline
        # linear: literal text, of an indentation that `_JSON_ITEMS` bounds
        last = re.compile(closing + b"(?:" + separator + rb"(?=\{)|" + newline + outer + rb"\])")
        item = one_by_one = 0
        while True:
            if self._take_list and cutter.offset >= one_by_one:
                items = cutter.until_last(closing + separator + opening)
                if items and (
                    taken := self._take_list(place, b"".join((b"[", items, closing, b"]")))
                ):
                    item += taken
                    self._count(taken)
                    cutter.skip(len(items) + len(closing) + len(separator))
                    continue
                one_by_one = cutter.offset + len(items or b"")
            item += 1
            line = cutter.line
            text = cutter.until(last)
            if text is None:
                problem = "the list does not end; is the file complete?"
                self._report(Problem(replace(place, line=line), "items", problem))
                cutter.rest()
                return
            match = cutter.starts_with(last)
            end = cutter.take(len(match[0])) if match else b""
            yield from self._json_object(replace(place, item=item, line=line), text + closing)
            if end.endswith(b"]"):
                cutter.until(_JSON_END)
                cutter.take(2)
                return

    def _json_object(
        self,
        place: Place,
        text: bytes | msgspec.Raw,
        kind: str = "",
        version: str = "",
        depth: int = 0,
    ) -> Iterator[Document]:
        """One object, or the items of a list; `kind` and `version` are those of a typed list for its items."""
        self._count()
        if depth > _DEEPEST_LIST:
            self._report(
                Problem(place, "items", f"lists are nested more than {_DEEPEST_LIST} levels deep")
            )
            return
        named = _NAMED.match(text)
        if named and not named[2].endswith(b"List"):
            if self._too_large(place, "an object", text, _OF_OBJECT):
                return
            yield Document(
                place, named[1].decode(errors="replace"), named[2].decode(errors="replace"), text
            )
            return
        try:
            head = decoder(_Head).decode(text)
            if head.kind.endswith("List") or not (head.kind or kind):
                whole = decoder(_List).decode(text)
                if bytes((items := memoryview(whole.items))[:4]) != b"null":
                    of = _item_type(whole.kind, whole.api_version)
                    for number, item in enumerate(_elements(items), 1):
                        yield from self._json_object(
                            replace(place, item=number, line=0), item, *of, depth + 1
                        )
                    return
        except UNREADABLE as error:
            self._report(_malformed(place, bytes(text), error))
            return
        if not self._too_large(place, "an object", text, _OF_OBJECT):
            yield Document(place, head.api_version or version, head.kind or kind, text)

    def _count(self, more: int = 1) -> None:
        self._objects += more
        most = self._limit // BYTES_PER_OBJECT
        if self._objects > most:
            raise TooLargeError("the file", most, self._limit, "objects")

    def _too_large(self, place: Place, what: str, text: bytes | msgspec.Raw, part: int) -> bool:
        """Whether the text has more than a part of the limit, which is reported: parsed, it takes far more."""
        most = self._limit // part
        if too_large := len(memoryview(text)) > most:
            self._report(Problem(place, "", str(TooLargeError(what, most, self._limit))))
        return too_large

    def _yaml_items(self, place: Place, cutter: Cutter) -> Iterator[Document]:
        """The items of a list as kubectl prints it: each begins with a dash in the first column."""
        item = 0
        while cutter.starts_with(_YAML_DASH):
            item += 1
            line = cutter.line
            text = cutter.until(_YAML_ITEM, skip=2)
            text = cutter.rest() if text is None else text
            # The dash becomes a blank, so that the item is a document of its own with every column
            # where it was.
            yield from self._yaml_document(replace(place, item=item, line=line), b"  " + text[2:])
        # What is left of the list: its kind and metadata.
        if cutter.until(_DOCUMENT) is None:
            cutter.rest()

    def _yaml_document(self, place: Place, text: bytes) -> Iterator[Document]:
        if self._too_large(place, "a YAML document", text, _OF_YAML):
            return
        try:
            values = load(without_unread(text))
        except YamlSyntaxError:
            # Again with every line in its place.
            try:
                values = load(text)
            except YamlSyntaxError as error:
                self._report(Problem(_down(place, error.line - 1), "", str(error)))
                return
        if values is not None:
            yield from self._yaml_object(place, text, values)

    def _yaml_object(
        self,
        place: Place,
        text: bytes,
        values: Any,
        kind: str = "",
        version: str = "",
        inside: str = "",
    ) -> Iterator[Document]:
        self._count()
        if not isinstance(values, dict):
            self._report(
                Problem(
                    place, "", "not a Kubernetes object: it needs apiVersion, kind and metadata"
                )
            )
            return
        own = values.get("kind")
        items = values.get("items")
        if "items" in values and (own is None or str(own).endswith("List")):
            if not isinstance(items, list | None):
                self._report(Problem(place, f"{inside}.items".lstrip("."), "is not a list"))
                return
            of = _item_type(str(own or "List"), str(values.get("apiVersion", "")))
            for number, item in enumerate(items or (), 1):
                at = f"{inside}.items[{number - 1}]"
                yield from self._yaml_object(replace(place, item=number), text, item, *of, at)
            return
        yield Document(
            place, str(values.get("apiVersion") or version), str(own or kind), text, values, inside
        )


def _after_blank(text: bytes, begin: int) -> int:
    """Where JSON begins after lines without an object."""
    for pattern in (_BLANK, _JSON):
        found = pattern.match(text, begin)
        begin = found.end() if found else begin
    return begin


def _elements(array: memoryview) -> Iterator[msgspec.Raw]:
    """The elements of a JSON array one after the other: a list of all may take far more memory than the text."""
    begin, last = 1, len(array) - 1
    if bytes(array[:1]) != b"[":
        raise msgspec.ValidationError("Expected `array` - at `$.items`")
    while (gap := _GAP.match(array, begin)) and (begin := gap.end()) < last:
        end = last
        try:
            decoder(msgspec.Raw).decode(array[begin:])
        except msgspec.DecodeError as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                raise
            end = begin + int(trailing[1]) - 1
        yield msgspec.Raw(array[begin:end])
        begin = end


def _item_type(kind: str, version: str) -> tuple[str, str]:
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
