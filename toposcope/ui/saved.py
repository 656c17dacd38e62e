"""Saved files as a source, read again when one of them changes."""

import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.kube.reflector import Stop
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.cutter import LIMIT
from toposcope.snapshot.decode import keep_every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import PodView, Snapshot
from toposcope.snapshot.problems import InputError
from toposcope.ui.facts import Facts
from toposcope.ui.source import FullNode, cached_view, gpu_uuids

_FILES: Final = "files"
EXPECTED: Final = (_FILES,)
_POLL_SECONDS: Final = 2.0
"""Time between two checks of the files' modification times."""
_MOST_PROBLEMS: Final = 3

_Times = tuple[tuple[str, int, int], ...]


class SavedSource:
    """Reads files into `facts`, once when it starts and again whenever one changes."""

    kind: Literal["files"] = "files"

    def __init__(
        self, names: Sequence[str], facts: Facts, stop: Stop | None = None, limit: int = LIMIT
    ) -> None:
        self._names = tuple(names)
        self._limit = limit
        self._facts = facts
        self._end = threading.Event()
        self._stop: Stop = stop or self._end
        self._times: _Times = ()
        self._matrices: dict[str, bytes] = {}
        self._published = Snapshot("", None, (), None)
        self._required = RequiredLevels()

    def start(self) -> None:
        """Read the files, then watch their modification times.

        Raises InputError when they cannot be read.
        """
        self._times = self._stamps()
        self._load()
        threading.Thread(target=self._follow, name="files", daemon=True).start()

    def close(self) -> None:
        """Ask the thread to end."""
        self._end.set()

    def node(self, name: str) -> FullNode | None:
        """One node, as it is in the files."""
        node = self._facts.node(name)
        if node is None:
            return None
        packed = self._matrices.get(name)
        if packed:
            node = msgspec.structs.replace(node, matrix=zlib.decompress(packed).decode())
        return FullNode(node, "")

    def published(self) -> Snapshot:
        """What schedulers read, as far as it is in the files."""
        return self._published

    def required(self) -> RequiredLevels:
        """What PodGangs and PodGroups require, as far as they are in the files."""
        return self._required

    def _follow(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self.look_again()

    def look_again(self) -> None:
        """Read the files if one has changed.

        Where they cannot be read, the facts stay as they were and count as stale.
        """
        times = self._stamps()
        if times == self._times:
            return

        self._times = times
        try:
            self._load()
        except InputError as error:
            why = "; ".join(str(problem) for problem in error.problems[:_MOST_PROBLEMS])
            more = len(error.problems) - _MOST_PROBLEMS
            if more > 0:
                why += f"; and {more} more problems"
            self._facts.mark_failing(_FILES, why)

    def _load(self) -> None:
        required = RequiredLevels()
        snapshot = load_files(
            self._names, keep_matrix=keep_every, limit=self._limit, others=required
        )
        self._required = required
        self._matrices = {}
        for node in snapshot.nodes:
            if node.matrix:
                matrix = node.matrix.encode(errors="replace")
                self._matrices[node.name] = zlib.compress(matrix, 1)

        self._published = replace(snapshot, nodes=(), pods=None, warnings=(), lacks_pods=False)
        fill(self._facts, snapshot)
        self._facts.mark_synced(_FILES)

    def _stamps(self) -> _Times:
        stamps: list[tuple[str, int, int]] = []
        for name in self._names:
            stamps += _stamps_below(Path(name))
        return tuple(stamps)


def _stamps_below(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, modification time and size of a file, or of all files in a directory.

    A pipe never changes.
    """
    if not (path.is_dir() or path.is_file()):
        yield str(path), 0, 0
        return

    try:
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            stat = file.stat()
            yield str(file), stat.st_mtime_ns, stat.st_size
    except OSError:
        yield str(path), 0, 0


def fill(facts: Facts, snapshot: Snapshot) -> None:
    """Make the facts those of a snapshot, without the matrices of nodes that are ok."""
    if facts.catalogue is BUILT_IN:  # --config gave no other
        facts.put_catalogue(snapshot.catalogue)

    topologies = {topology.name: topology for topology in snapshot.topologies}
    facts.replace_topologies(topologies)

    pods: dict[str, PodView | None] | None = None
    if snapshot.pods is not None:
        pods = {}
        for pod in snapshot.pods:
            key = f"{pod.namespace}/{pod.name}"
            pods[key] = pod
    facts.replace_pods(pods)

    nodes = {}
    for node in snapshot.nodes:
        uuids = gpu_uuids(node.matrix)
        nodes[node.name] = cached_view(node), uuids
    facts.replace_nodes(nodes)

    warnings = snapshot.warnings_about_pods_too
    count = len(warnings)
    for number, warning in enumerate(warnings):
        facts.warn(f"files {number}", warning)
    facts.warn(f"files {count}", "")
