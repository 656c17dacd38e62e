"""Kubernetes objects from files: JSON or YAML, lists or many documents, gzipped or not.

Memory is bounded. The lists that `kubectl get -o json` and `-o yaml` print are recognised by their
layout and cut into items: a parser needs a whole list in memory, and a large cluster's is
gigabytes. No string of JSON holds a line break, so indentation tells where an item ends. Anything
else is read a document at a time. A problem is reported, and reading goes on.
"""

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar, cast

import msgspec

from toposcope.api.yaml_text import (
    MAX_DEPTH,
    YamlSyntaxError,
    check_depth,
    load,
    locate,
    without_unread,
)
from toposcope.integrations.documents import expanded
from toposcope.integrations.framework.levels import UnreadableDocumentError
from toposcope.kube.listing import UNREADABLE
from toposcope.snapshot.cutter import BYTES_PER_OBJECT, LIMIT, Cutter, TooLargeError
from toposcope.snapshot.problems import FieldError, InputError, Place, Problem
from toposcope.snapshot.sources import STDIN, Prefixed, Source
from toposcope.text import not_utf8, type_words

SUFFIXES: Final = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
"""What is read of a directory."""

_GZIP: Final = b"\x1f\x8b"
_PACKED: Final = b"TOPOSCOPE-SNAPSHOT"
_LONGEST_LOCATED_BYTES: Final = 1 << 20
"""In longer texts the line of a field is not looked for."""
_LIMIT_PART_OF_OBJECT: Final = 16
_LIMIT_PART_OF_YAML: Final = 4
"""The limit divided by this is what a JSON object and a YAML document may have.

No API server takes an object of 16 MiB.
"""
_DEEPEST_LIST: Final = 8
"""Lists within lists: each is parsed once more for every list around it; kubectl prints none."""
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
_PATH_OF_MSGSPEC: Final = " - at `"
"""What stands before the path of a field in the messages of msgspec's errors."""

_T = TypeVar("_T")
Report = Callable[[Problem], None]
TakeList = Callable[[Place, bytes], int]
"""Takes all objects of a JSON list and returns how many, or takes none and returns 0."""


class _Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _List(_Head, frozen=True, gc=False, rename="camel"):
    items: msgspec.Raw = msgspec.Raw(b"null")


class _Type(NamedTuple):
    """Version and kind of an object that does not say them itself."""

    api_version: str
    kind: str


_UNTYPED: Final = _Type("", "")


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
    """The object's place in the text (`.items[3]`); empty where it is the whole text."""

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
            decoder_of_kind = decoder(cast("Hashable", kind))
            decoded: _T = decoder_of_kind.decode(self.text)
            if kind is dict and self._may_be_deep:
                check_depth(decoded)
        except YamlSyntaxError as error:
            raise InputError(Problem(self.place, "", str(error))) from error
        except UNREADABLE as error:
            is_valid_json = isinstance(error, msgspec.ValidationError)
            if self.values is None and not is_valid_json:
                problem = _malformed(self.place, bytes(self.text), error)
                raise InputError(problem) from error
            raise self.bad(error) from error
        return decoded

    @property
    def _may_be_deep(self) -> bool:
        """Whether it has more brackets than a document may nest: counting them is cheap."""
        text = bytes(self.text)
        brackets = text.count(b"{") + text.count(b"[")
        return brackets > MAX_DEPTH

    def bad(self, error: Exception) -> InputError:
        """The error with its place, for an object that parses and makes no sense."""
        cause = _cause(error)
        field = ""
        line = 1
        if cause.path:
            text = b""
            if len(memoryview(self.text)) <= _LONGEST_LOCATED_BYTES:
                text = bytes(self.text)
            field, line = locate(text, cause.path, self.inside)

        place = _down(self.place, line - 1)
        return InputError(Problem(place, field, type_words(cause.why)))


class _Cause(NamedTuple):
    """Why an object makes no sense."""

    why: str
    path: str
    """The path of the field; empty: no field."""


def _cause(error: Exception) -> _Cause:
    if isinstance(error, FieldError):
        return _Cause(error.why, error.path)

    why, _, path = str(error).partition(_PATH_OF_MSGSPEC)
    return _Cause(why, path.rstrip("`"))


def check_text(text: bytes) -> None:
    """Raise UnicodeDecodeError for bytes that are not UTF-8.

    msgspec checks only the strings that a type has.
    """
    if not text.isascii():
        text.decode()


def _down(place: Place, lines: int) -> Place:
    """The place this number of lines further down; unchanged where its line is not known."""
    if not place.line:
        return place
    return replace(place, line=place.line + lines)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options of reading files."""

    on_read: Callable[[int], None] | None = None
    """Gets the number of bytes read each time."""
    take_list: TakeList | None = None
    """Objects that it takes are not yielded, and lines are not counted.

    Counting lines takes as long as parsing.
    """
    limit: int = LIMIT
    """The most bytes that one document may have."""
    can_lack_kind: bool = False
    """Whether objects without a kind are yielded too."""


def documents(
    names: Iterable[str | Source],
    report: Report,
    stdin: IO[bytes] | None = None,
    *,
    on_read: Callable[[int], None] | None = None,
    take_list: TakeList | None = None,
    limit: int = LIMIT,
    can_lack_kind: bool = False,
) -> Iterator[Document]:
    """Every Kubernetes object in files, directories (recursively) and standard input, in order.

    `report` gets the problems: what cannot be read, or has no kind. The other arguments are the
    fields of `ReadOptions`.
    """
    reading = ReadOptions(
        on_read=on_read,
        take_list=take_list,
        limit=limit,
        can_lack_kind=can_lack_kind,
    )
    for name in names:
        source = name if isinstance(name, Source) else Source(name)
        if source.name == STDIN:
            reader = _Reader("standard input", report, reading)
            yield from reader.read(stdin or sys.stdin.buffer)
            continue

        try:
            for file in _files(source):
                reader = _Reader(file.name, report, reading)
                with file.opened() as stream:
                    yield from reader.read(stream)
        except OSError as error:
            place = Place(str(error.filename or source.name))
            report(Problem(place, "", error.strerror or str(error)))


def kindless(document: Document) -> Problem:
    """The problem of a document that has no kind."""
    return Problem(document.place, "kind", "is missing, so the kind of the object is unknown")


def _files(source: Source) -> Sequence[Source]:
    """The source itself, or the files of a directory. Raises OSError where it has none."""
    path = Path(source.name)
    if source.stream is not None or not path.is_dir():
        return [source]
    files = []
    for file in sorted(path.rglob("*")):
        if file.name.endswith(SUFFIXES) and file.is_file():
            files.append(Source(str(file)))

    if not files:
        raise FileNotFoundError(2, f"no file here that ends in {', '.join(SUFFIXES)}", str(path))
    return files


class _Reader:
    """One file."""

    def __init__(self, name: str, report: Report, reading: ReadOptions) -> None:
        self._name = name
        self._report = report
        self._reading = reading
        self._objects = 0

    def read(self, stream: IO[bytes] | Prefixed) -> Iterator[Document]:
        head = stream.read(len(_GZIP))
        if head == _PACKED[: len(_GZIP)]:
            missing = len(_PACKED) - len(head)
            head += stream.read(missing)
            if head == _PACKED:
                self._problem(
                    "written by toposcope save: give it as a file of its own, --from FILE"
                )
                return
        content: Any = Prefixed(head, stream, self._reading.on_read)
        if head == _GZIP:
            content = gzip.GzipFile(fileobj=content)

        counts_lines = self._reading.take_list is None
        cutter = Cutter(content, count_lines=counts_lines, limit=self._reading.limit)
        try:
            for document in self._stream(cutter):
                if document.kind or self._reading.can_lack_kind:
                    yield document
                else:
                    self._report(kindless(document))
        except TooLargeError as error:
            self._problem(str(error))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._problem(f"not a whole gzip file: {error}")

    def _problem(self, message: str) -> None:
        """Report a problem of the file as a whole."""
        self._report(Problem(Place(self._name), "", message))

    def _stream(self, cutter: Cutter) -> Iterator[Document]:
        """JSON and YAML documents in any order."""
        number = 0
        while True:
            blank = cutter.starts_with(_BLANK)
            before = blank[0] if blank else b""
            after = len(before)
            if json := cutter.starts_with(_JSON, after=after):
                cutter.skip(after + len(json[0]))
                number = yield from self._json(cutter, number)
                continue

            if layout := cutter.starts_with(_YAML_ITEMS, after=after):
                number += 1
                cutter.take(after + len(layout[0]))
                yield from self._yaml_items(Place(self._name, number), cutter)
                continue

            # What ends with the last mark is empty: each document looks at the lines before it
            # once.
            cutter.skip(before.rfind(b"\n---") + 1)
            line = cutter.line
            # A document begins with its own `---`, which does not end it.
            text = cutter.until(_DOCUMENT, skip=3)
            is_last = text is None
            if text is None:
                text = cutter.rest()

            if not _EMPTY.match(text):
                number += 1
                place = Place(self._name, number, line=line)
                yield from self._yaml_document(place, text)
            if is_last:
                return

    def _json(self, cutter: Cutter, number: int) -> Generator[Document, None, int]:
        """A list as kubectl prints it, or other JSON; returns the number of the last document."""
        layout = cutter.starts_with(_JSON_ITEMS)
        if layout is None:
            return (yield from self._json_documents(cutter, number))

        cutter.take(len(layout[0]))
        place = Place(self._name, number + 1)
        yield from self._json_items(place, cutter, layout)
        return number + 1

    def _json_documents(self, cutter: Cutter, number: int) -> Generator[Document, None, int]:
        """JSON documents up to a mark, or to where a document ends with its line.

        Returns the number of the last document. A line that begins with a brace may belong to the
        document before it: then twice as much is read.
        """
        pieces: list[bytes] = []
        size = 0
        enough = 1
        place = Place(self._name, number, line=cutter.line)
        while True:
            piece = cutter.until(_JSON_NEXT, skip=1)
            is_last = piece is None
            if piece is None:
                piece = cutter.rest()
            pieces.append(piece)
            is_complete = _skip_mark(cutter) or is_last
            size += len(piece)
            cutter.check(size)
            if size < enough and not is_complete:
                continue

            text = b"".join(pieces)
            begin = 0
            while not _EMPTY.match(text, begin):
                before = begin
                begin = _after_blank(text, before)
                lines = text.count(b"\n", before, begin)
                place = replace(_down(place, lines), document=number + 1)
                end = self._end_of_json(text, begin)
                if isinstance(end, int):
                    yield from self._json_object(place, text[begin:end])
                    number += 1
                    lines = text.count(b"\n", begin, end)
                    place = _down(place, lines)
                    begin = end
                elif str(end) == _TRUNCATED and not is_complete:
                    break
                else:
                    yield from self._braces(place, text[begin:], end)
                    return number + 1
            else:
                return number

            pieces = [text[begin:]]
            size -= begin
            enough = 2 * size

    @staticmethod
    def _end_of_json(text: bytes, begin: int) -> int | Exception:
        """Where the JSON that begins here ends, or why it cannot be read."""
        rest = memoryview(text)[begin:]
        try:
            decoder(msgspec.Raw).decode(rest)
        except UNREADABLE as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                return error
            return begin + int(trailing[1]) - 1  # msgspec counts from 1 here
        return len(text)

    def _braces(self, place: Place, text: bytes, error: Exception) -> Iterator[Document]:
        """YAML in braces, else malformed JSON."""
        values = None
        if len(text) <= _LONGEST_LOCATED_BYTES:
            with suppress(YamlSyntaxError):
                values = load(text)

        if isinstance(values, dict):
            yield from self._yaml_object(place, text, values)
        else:
            self._report(_malformed(place, text, error))

    def _json_items(
        self, place: Place, cutter: Cutter, layout: re.Match[bytes]
    ) -> Iterator[Document]:
        """The items of a list on many lines, as kubectl prints it.

        Many at a time, where the reader takes lists.
        """
        marks = _ItemMarks.of(layout)
        item = 0
        one_by_one_until = 0
        while True:
            if self._reading.take_list and cutter.offset >= one_by_one_until:
                taken_count, looked_at = self._take_items(place, cutter, marks)
                if taken_count:
                    item += taken_count
                    continue
                one_by_one_until = cutter.offset + looked_at

            item += 1
            at = replace(place, item=item, line=cutter.line)
            text = cutter.until(marks.end)
            if text is None:
                problem = "the list does not end; is the file complete?"
                self._report(Problem(replace(at, item=place.item), "items", problem))
                cutter.rest()
                return

            end = b""
            if match := cutter.starts_with(marks.end):
                end = cutter.take(len(match[0]))
            yield from self._json_object(at, text + marks.closing)
            if end.endswith(b"]"):
                cutter.until(_JSON_END)
                cutter.take(2)
                return

    def _take_items(self, place: Place, cutter: Cutter, marks: "_ItemMarks") -> tuple[int, int]:
        """The number of items of the next chunk that were taken, and the bytes looked at."""
        items = cutter.until_last(marks.between)
        if not items or not self._reading.take_list:
            return 0, 0

        looked_at = len(items)
        whole_list = b"".join((b"[", items, marks.closing, b"]"))
        taken_count = self._reading.take_list(place, whole_list)
        if taken_count:
            self._count(taken_count)
            cutter.skip(looked_at + len(marks.closing) + len(marks.separator))
        return taken_count, looked_at

    def _json_object(
        self,
        place: Place,
        text: bytes | msgspec.Raw,
        inherited: _Type = _UNTYPED,
        depth: int = 0,
    ) -> Iterator[Document]:
        """One object, or the items of a list; a typed list says what its items `inherited`."""
        self._count()
        if depth > _DEEPEST_LIST:
            nested = f"lists are nested more than {_DEEPEST_LIST} levels deep"
            self._report(Problem(place, "items", nested))
            return

        of_object = _named_type(text)
        if of_object:
            yield from self._json_document(place, of_object, text)
            return

        try:
            head = decoder(_Head).decode(text)
            items = _items_of(head, inherited, text)
            if items is not None:
                of_list = _item_type(head.kind, head.api_version)
                for number, item in enumerate(_elements(items), 1):
                    at = replace(place, item=number, line=0)
                    yield from self._json_object(at, item, of_list, depth + 1)
                return
        except UNREADABLE as error:
            self._report(_malformed(place, bytes(text), error))
            return

        version = head.api_version or inherited.api_version
        kind = head.kind or inherited.kind
        yield from self._json_document(place, _Type(version, kind), text)

    def _json_document(
        self, place: Place, of_object: _Type, text: bytes | msgspec.Raw
    ) -> Iterator[Document]:
        if not self._too_large(place, "an object", text, _LIMIT_PART_OF_OBJECT):
            yield Document(place, of_object.api_version, of_object.kind, text)

    def _count(self, more: int = 1) -> None:
        self._objects += more
        limit = self._reading.limit
        most = limit // BYTES_PER_OBJECT
        if self._objects > most:
            raise TooLargeError("the file", most, limit, "objects")

    def _too_large(self, place: Place, what: str, text: bytes | msgspec.Raw, part: int) -> bool:
        """Whether the text has more than a part of the limit; then that is reported.

        Parsed, the text takes far more memory.
        """
        limit = self._reading.limit
        most = limit // part
        if len(memoryview(text)) <= most:
            return False

        error = TooLargeError(what, most, limit)
        self._report(Problem(place, "", str(error)))
        return True

    def _yaml_items(self, place: Place, cutter: Cutter) -> Iterator[Document]:
        """The items of a list as kubectl prints it: each begins with a dash in the first column."""
        item = 0
        while cutter.starts_with(_YAML_DASH):
            item += 1
            line = cutter.line
            text = cutter.until(_YAML_ITEM, skip=2)
            if text is None:
                text = cutter.rest()

            # The dash becomes a blank, so that the item is a document of its own with every column
            # where it was.
            at = replace(place, item=item, line=line)
            yield from self._yaml_document(at, b"  " + text[2:])

        # What is left of the list: its kind and metadata.
        if cutter.until(_DOCUMENT) is None:
            cutter.rest()

    def _yaml_document(self, place: Place, text: bytes) -> Iterator[Document]:
        if self._too_large(place, "a YAML document", text, _LIMIT_PART_OF_YAML):
            return
        if self._reading.can_lack_kind:
            try:
                filled_in = expanded(text)
            except UnreadableDocumentError as error:
                self._report(Problem(place, "", str(error)))
                return
            if filled_in is not None:
                yield from self._filled_in(place, filled_in)
                return

        try:
            values = load(without_unread(text))
        except YamlSyntaxError:
            # Again with every line in its place.
            try:
                values = load(text)
            except YamlSyntaxError as error:
                at = _down(place, error.line - 1)
                self._report(Problem(at, "", str(error)))
                return

        if values is not None:
            yield from self._yaml_object(place, text, values)

    def _filled_in(self, place: Place, text: bytes) -> Iterator[Document]:
        """What a system made of a template, whose lines are not those of the file."""
        try:
            values = load(text)
        except YamlSyntaxError as error:
            problem = f"line {error.line} of the template as it is filled in: {error}"
            self._report(Problem(place, "", problem))
            return
        yield from self._yaml_object(place, b"", values)

    def _yaml_object(
        self,
        place: Place,
        text: bytes,
        values: Any,
        inherited: _Type = _UNTYPED,
        inside: str = "",
    ) -> Iterator[Document]:
        """One object, or the items of a list; a typed list says what its items `inherited`."""
        self._count()
        if not isinstance(values, dict):
            needed = "not a Kubernetes object: it needs apiVersion, kind and metadata"
            self._report(Problem(place, "", needed))
            return

        kind = values.get("kind")
        version = values.get("apiVersion")
        is_list = "items" in values and (kind is None or str(kind).endswith("List"))
        if is_list:
            of_list = _item_type(str(kind or "List"), str(values.get("apiVersion", "")))
            at = f"{inside}.items"
            yield from self._items_of_yaml(place, text, values["items"], of_list, at)
            return

        yield Document(
            place=place,
            api_version=str(version or inherited.api_version),
            kind=str(kind or inherited.kind),
            text=text,
            values=values,
            inside=inside,
        )

    def _items_of_yaml(
        self, place: Place, text: bytes, items: Any, of_list: _Type, inside: str
    ) -> Iterator[Document]:
        if not isinstance(items, list | None):
            self._report(Problem(place, inside.lstrip("."), "is not a list"))
            return

        for index, item in enumerate(items or ()):
            at = replace(place, item=index + 1)
            yield from self._yaml_object(at, text, item, of_list, f"{inside}[{index}]")


@dataclass(frozen=True, slots=True)
class _ItemMarks:
    """The text between the items of a list as kubectl prints it, by its indentation."""

    closing: bytes
    """The end of an item."""
    separator: bytes
    between: bytes
    """The end of an item, the separator and the beginning of the next item."""
    end: re.Pattern[bytes]
    """The end of an item and what follows it: the next item or the end of the list."""

    @classmethod
    def of(cls, layout: re.Match[bytes]) -> "_ItemMarks":
        """The marks of a list that begins like this."""
        newline, outer, inner = layout.groups()
        closing = newline + inner + b"}"
        separator = b"," + newline + inner
        opening = b"{" + newline
        next_item = separator + rb"(?=\{)"
        end_of_list = newline + outer + rb"\]"
        # linear: literal text, of an indentation that `_JSON_ITEMS` bounds
        end = re.compile(closing + b"(?:" + next_item + b"|" + end_of_list + b")")
        return cls(
            closing=closing,
            separator=separator,
            between=closing + separator + opening,
            end=end,
        )


def _named_type(text: bytes | msgspec.Raw) -> _Type | None:
    """Version and kind of an object that begins with them, as kubectl prints it; not of a list."""
    named = _NAMED.match(text)
    if named is None:
        return None

    version, kind = named.groups()
    if kind.endswith(b"List"):
        return None
    return _Type(version.decode(errors="replace"), kind.decode(errors="replace"))


def _items_of(head: _Head, inherited: _Type, text: bytes | msgspec.Raw) -> memoryview | None:
    """The items of a list as they stand in its text; None for an object that is not a list."""
    is_typed = bool(head.kind or inherited.kind)
    if is_typed and not head.kind.endswith("List"):
        return None

    items = memoryview(decoder(_List).decode(text).items)
    if bytes(items[:4]) == b"null":
        return None
    return items


def _skip_mark(cutter: Cutter) -> bool:
    """Whether a mark ends the documents before it; it begins the next line."""
    is_marked = bool(cutter.starts_with(_MARK))
    if is_marked:
        cutter.skip(1)
    return is_marked


def _after_blank(text: bytes, begin: int) -> int:
    """Where JSON begins after lines without an object."""
    for pattern in (_BLANK, _JSON):
        skipped = pattern.match(text, begin)
        if skipped:
            begin = skipped.end()
    return begin


def _elements(array: memoryview) -> Iterator[msgspec.Raw]:
    """The elements of a JSON array one by one: all at once may take far more memory than the text.

    Raises msgspec.DecodeError.
    """
    if bytes(array[:1]) != b"[":
        raise msgspec.ValidationError("Expected `array` - at `$.items`")

    last = len(array) - 1
    begin = _after_gap(array, 1)
    while begin < last:
        end = last
        try:
            decoder(msgspec.Raw).decode(array[begin:])
        except msgspec.DecodeError as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                raise
            end = begin + int(trailing[1]) - 1

        yield msgspec.Raw(array[begin:end])
        begin = _after_gap(array, end)


def _after_gap(array: memoryview, begin: int) -> int:
    """Where the next element of an array begins."""
    gap = _GAP.match(array, begin)
    if gap is None:
        return begin
    return gap.end()


def _item_type(kind: str, version: str) -> _Type:
    """Kind and version of the items of a typed list such as NodeList."""
    if kind == "List":
        return _UNTYPED
    return _Type(version, kind.removesuffix("List"))


def _malformed(place: Place, text: bytes, error: Exception) -> Problem:
    if isinstance(error, UnicodeDecodeError):
        return Problem(place, "", not_utf8(error))
    if isinstance(error, RecursionError):
        return Problem(place, "", "nested too deeply")

    text_of_error = str(error)
    lines = 0
    if byte := _BYTE.search(text_of_error):
        lines = text.count(b"\n", 0, int(byte[1]))
    why, _, _ = _BYTE.sub("", text_of_error).partition(_PATH_OF_MSGSPEC)
    message = type_words(why or type(error).__name__)
    return Problem(_down(place, lines), "", message)
