"""A snapshot from saved files: what `kubectl get -o yaml` or `-o json` printed (see `SAVE`), or `toposcope save`."""

from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

import msgspec

from kube.decoding import UNREADABLE
from survey.bulk import BulkFile, Unfit
from survey.collection import unhurried_collection
from survey.decode import KeepMatrix, troubled
from survey.documents import STDIN, Document, decoder, documents, json_object
from survey.gathered import Gathered
from survey.packed import is_packed, read_packed
from survey.problems import BadInput, Place, Problem
from survey.progress import Meter, Progress, silent
from survey.snapshot import Collector, Snapshot

_STEP: Final = 500


def load_files(
    names: Iterable[str],
    stdin: IO[bytes] | None = None,
    progress: Progress = silent,
    keep_matrix: KeepMatrix = troubled,
    others: Collector | None = None,
) -> Snapshot:
    """The cluster in these files (`-`: standard input; directories: everything below them).

    What `toposcope save` wrote is taken as it is, beside other files too: an object that stands in both is the other's.
    Objects of other kinds are passed over, but for those that
    `others` wants. Raises BadInput with every problem of all files.
    """
    names = list(names)
    problems: list[Problem] = []
    with unhurried_collection():
        saved = [read_packed(Path(name), keep_matrix) for name in names if is_packed(name)]
        if len(saved) == len(names) == 1:
            return saved[0]
        gathered = Gathered(keep_matrix)
        for each in saved:
            gathered.include(each)
        plain = [name for name in names if not is_packed(name)]
        meter = Meter(plain)
        reading = _Reading(gathered, others, problems, meter, progress)
        for name in plain:
            if name == STDIN or not reading.bulk(Path(name)):
                reading.carefully(name, stdin)
    if problems:
        raise BadInput(*problems)
    return gathered.snapshot(", ".join(names))


class _Reading:
    """Files on their way into a snapshot."""

    def __init__(
        self, into: Gathered, others: Collector | None, problems: list[Problem], meter: Meter, progress: Progress
    ) -> None:
        self._into = into
        self._others = others
        self._problems = problems
        self._meter = meter
        self._progress = progress
        self._count = 0

    def carefully(self, name: str, stdin: IO[bytes] | None) -> None:
        """Read whatever is there, object by object; what is wrong goes to the problems."""
        for document in documents((name,), self._problems.append, stdin, self._meter.read):
            try:
                self._take(document)
            except BadInput as error:
                self._problems += error.problems
            self._count += 1
            if not self._count % _STEP:
                self._tell(document.place.file)

    def bulk(self, path: Path) -> bool:
        """Read a large list that is as it should be. False: it is none, and has to be read carefully, from its start.

        What was taken until then comes once more, and counts once.
        """
        if self._others and any(self._others.wants("", kind) for kind in ("Node", "Pod")):
            return False  # what is not kept of those is wanted too
        began, seen = self._count, 0
        try:
            for text in BulkFile(path).lists():
                self._count += self._listed(text, Place(str(path), 1))
                self._meter.read(len(text))
                seen += len(text)
                self._tell(str(path))
        except (Unfit, OSError):
            self._meter.read(-seen)
            self._count = began
            return False
        return True

    def _listed(self, text: memoryview, place: Place) -> int:
        """Take a part of a list; how many objects were in it. Raises Unfit."""
        try:
            return self._into.take_listed(text)
        except (*UNREADABLE, ValueError):
            pass  # something else than Nodes and Pods is among them, or something is wrong
        try:
            items = [bytes(each) for each in decoder(list[msgspec.Raw]).decode(text)]
            for item in items:
                for document in json_object(place, item, _unfit):
                    if not document.kind:
                        raise Unfit
                    self._take(document)
        except (*UNREADABLE, BadInput):
            raise Unfit from None
        return len(items)

    def _take(self, document: Document) -> None:
        self._into.take(document)
        if self._others and self._others.wants(document.api_version.rpartition("/")[0], document.kind):
            self._others.put({**document.read(dict), "apiVersion": document.api_version, "kind": document.kind})

    def _tell(self, what: str) -> None:
        self._progress(what, self._count, self._meter.share)


def _unfit(_problem: Problem) -> None:
    raise Unfit
