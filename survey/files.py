"""A snapshot from saved files: what `kubectl get -o yaml` or `-o json` printed (see `SAVE`), or `toposcope save`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Final

from survey.collection import unhurried_collection
from survey.decode import KeepMatrix, troubled
from survey.documents import Document, documents
from survey.gathered import Gathered
from survey.packed import is_packed, read_packed
from survey.problems import BadInput, Problem
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
        found = documents(plain, problems.append, stdin, meter.read)
        _take_in(gathered, found, others, problems, lambda what, count: progress(what, count, meter.share))
    if problems:
        raise BadInput(*problems)
    return gathered.snapshot(", ".join(names))


def _take_in(
    gathered: Gathered,
    found: Iterable[Document],
    others: Collector | None,
    problems: list[Problem],
    tell: Callable[[str, int], None],
) -> None:
    for count, document in enumerate(found, 1):
        try:
            gathered.take(document)
            if others and others.wants(document.api_version.rpartition("/")[0], document.kind):
                others.put({**document.read(dict), "apiVersion": document.api_version, "kind": document.kind})
        except BadInput as error:
            problems += error.problems
        if not count % _STEP:
            tell(document.place.file, count)
