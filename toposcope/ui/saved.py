"""Saved files as a source: read again when one of them changes."""

import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from toposcope.kube.reflector import Stop
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import PodView, Published, Snapshot
from toposcope.snapshot.problems import InputError
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.hardware import State
from toposcope.ui.annotations import gpu_uuids, without_matrix
from toposcope.ui.facts import Facts
from toposcope.ui.source import Seen

_FILES: Final = "files"
EXPECTED: Final = (_FILES,)
_PAUSE: Final = 2.0
"""Seconds from one look at the files' times to the next."""
_FEW: Final = 3

_Times = tuple[tuple[str, int, int], ...]


class SavedSource:
    """Reads files into `facts`, once when it starts and again whenever one changes. `stop` is its only clock."""

    kind: Literal["files"] = "files"

    def __init__(self, names: Sequence[str], facts: Facts, stop: Stop | None = None) -> None:
        self._names = tuple(names)
        self._facts = facts
        self._end = threading.Event()
        self._stop: Stop = stop or self._end
        self._times: _Times = ()
        self._matrices: dict[str, bytes] = {}
        self._published: tuple[Published, ...] = ()

    def start(self) -> None:
        """Read the files, then look at their times again and again. Raises BadInput when they cannot be read."""
        self._times = self._stamps()
        self._load()
        threading.Thread(target=self._follow, name="files", daemon=True).start()

    def close(self) -> None:
        """Ask the thread to end."""
        self._end.set()

    def node(self, name: str) -> Seen | None:
        """One node, as the files have it."""
        node = self._facts.node(name)
        if node is None:
            return None
        packed = self._matrices.get(name)
        return Seen(msgspec.structs.replace(node, matrix=zlib.decompress(packed).decode()) if packed else node, "")

    def published(self) -> tuple[tuple[Published, ...], tuple[str, ...]]:
        """What the files hold of what schedulers were given."""
        return self._published, ()

    def _follow(self) -> None:
        while not self._stop.wait(_PAUSE):
            self.look_again()

    def look_again(self) -> None:
        """Read the files if one has changed since; those that cannot be read leave what was known, and it is stale."""
        times = self._stamps()
        if times == self._times:
            return
        self._times = times
        try:
            self._load()
        except InputError as error:
            some = "; ".join(map(str, error.problems[:_FEW]))
            more = len(error.problems) - _FEW
            self._facts.failing(_FILES, some + (f"; and {more} more problems" if more > 0 else ""))

    def _load(self) -> None:
        found = load_files(self._names, keep_matrix=lambda _name, _not_ok: True)
        self._matrices = {
            node.name: zlib.compress(node.matrix.encode(errors="replace"), 1) for node in found.nodes if node.matrix
        }
        self._published = found.published
        fill(self._facts, found)
        self._facts.looked(_FILES)

    def _stamps(self) -> _Times:
        return tuple(stamp for name in self._names for stamp in _stamps_below(Path(name)))


def _stamps_below(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, time and size of a file, or of all files of a directory."""
    try:
        below = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        for each in below:
            about = each.stat()
            yield str(each), about.st_mtime_ns, about.st_size
    except OSError:
        yield str(path), 0, 0


def fill(facts: Facts, found: Snapshot) -> None:
    """Make the facts those of a snapshot. Matrices of nodes that are well are left out."""
    if facts.catalogue is BUILT_IN:  # nobody gave another one
        facts.catalogue = found.catalogue
    facts.replace_topologies({topology.name: topology for topology in found.topologies})
    pods: dict[str, PodView | None] | None = None
    if found.pods is not None:
        pods = {f"{pod.namespace}/{pod.name}": pod for pod in found.pods}
    facts.replace_pods(pods)
    facts.replace_nodes(
        {
            node.name: (node if node.state not in (State.OK, None) else without_matrix(node), gpu_uuids(node.matrix))
            for node in found.nodes
        }
    )
    for number, warning in enumerate(found.warnings):
        facts.warn(f"files {number}", warning)
    facts.warn(f"files {len(found.warnings)}", "")
