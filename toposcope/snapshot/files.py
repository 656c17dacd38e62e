"""A snapshot from saved files: what `kubectl get -o yaml` or `-o json` printed (see `SAVE`), or `toposcope save`.

A snapshot in the making: objects out of files, one after the other.

Python's search for garbage, put off.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import IO, Final

import msgspec

from toposcope.api.cluster_topology import GROUP, KIND, Topology
from toposcope.kube.listing import UNREADABLE
from toposcope.snapshot.bulk import BulkFile, UnsupportedLayoutError
from toposcope.snapshot.decode import Decoder, KeepMatrix, Raw, published, topology_of, troubled
from toposcope.snapshot.documents import STDIN, Document, decoder, documents, json_object
from toposcope.snapshot.model import Collector, NodeView, PodView, Published, Snapshot
from toposcope.snapshot.packed import is_packed, read_packed
from toposcope.snapshot.problems import InputError, Meter, Place, Problem, Progress, silent
from toposcope.topology.catalogue import BUILT_IN

PUBLISHED: Final = frozenset(
    {
        ("grove.io", "ClusterTopologyBinding"),
        ("grove.io", "ClusterTopology"),
        ("kai.scheduler", "Topology"),
        ("kueue.x-k8s.io", "Topology"),
    }
)
"""Group and kind of the topology resources that schedulers read."""
SAVE: Final = "kubectl get nodes,pods,clustertopologies.gpu.topology -A -o json > cluster.json"
"""The command that saves all that a snapshot is made of."""


class Gathered:
    """Collects documents; the last of several with one name counts."""

    def __init__(self, keep_matrix: KeepMatrix) -> None:
        self._decode = Decoder(keep_matrix)
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[tuple[str, str], PodView] = {}
        self._any_pods = False
        self._catalogue = BUILT_IN
        self._saved_pods: list[Sequence[PodView]] = []
        self._topologies: dict[str, Topology] = {}
        self._published: dict[tuple[str, str, str], Published] = {}

    def include(self, saved: Snapshot) -> None:
        """Keep a whole snapshot; its pods stay unread as long as no others come."""
        self._nodes.update((node.name, node) for node in saved.nodes)
        self._saved_pods += [saved.pods] if saved.pods is not None else []
        self._topologies.update((topology.name, topology) for topology in saved.topologies)
        self._published.update((_key(each), each) for each in saved.published)
        self._catalogue = saved.catalogue

    def take(self, document: Document) -> None:
        """Keep what the document says. Raises BadInput."""
        group = document.api_version.rpartition("/")[0]
        try:
            if (group, document.kind) == ("", "Node"):
                node = self._decode.node(document.read)
                self._nodes[node.name] = node
            elif (group, document.kind) == ("", "Pod"):
                self._any_pods = True
                pod = self._decode.pod(document.read)
                if pod:
                    self._pods[pod.namespace, pod.name] = pod
            elif (group, document.kind) == (GROUP, KIND):
                topology = topology_of(document.read(dict))
                self._topologies[topology.name] = topology
            elif (group, document.kind) in PUBLISHED:
                found = published(document.api_version, document.kind, document.read)
                self._published[_key(found)] = found
        except (ValueError, msgspec.ValidationError) as error:
            raise document.bad(error) from error

    def take_listed(self, text: Raw) -> int:
        """Keep the Nodes and Pods of a JSON list of nothing else; how many there are. Raises as `Decoder.listed`."""
        nodes, pods = self._decode.listed(text)
        self._nodes.update((node.name, node) for node in nodes)
        self._pods.update(((pod.namespace, pod.name), pod) for pod in pods if pod)
        self._any_pods = self._any_pods or bool(pods)
        return len(nodes) + len(pods)

    def snapshot(self, source: str) -> Snapshot:
        """Everything that was kept."""
        warnings = []
        pods = self._all_pods()
        if pods is None:
            warnings.append("there are no Pods in the files, so what is free is not known; save them too: " + SAVE)
        if not self._nodes:
            warnings.append("there are no Nodes in the files; save them with: " + SAVE)
        return Snapshot(
            source=source,
            taken_at=None,
            nodes=tuple(sorted(self._nodes.values(), key=attrgetter("name"))),
            pods=pods,
            topologies=tuple(sorted(self._topologies.values(), key=attrgetter("name"))),
            published=tuple(self._published.values()),
            warnings=tuple(warnings),
            catalogue=self._catalogue,
        )

    def _all_pods(self) -> Sequence[PodView] | None:
        """Those of the snapshots and of the files; None where neither tells of any."""
        if not self._any_pods and len(self._saved_pods) <= 1:
            return self._saved_pods[0] if self._saved_pods else None
        saved = {(pod.namespace, pod.name): pod for pods in self._saved_pods for pod in pods}
        return tuple((saved | self._pods).values())


def _key(published: Published) -> tuple[str, str, str]:
    return published.api_version, published.kind, published.name


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
        raise InputError(*problems)
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
            except InputError as error:
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
        except (UnsupportedLayoutError, OSError):
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
                        raise UnsupportedLayoutError
                    self._take(document)
        except (*UNREADABLE, InputError):
            raise UnsupportedLayoutError from None
        return len(items)

    def _take(self, document: Document) -> None:
        self._into.take(document)
        if self._others and self._others.wants(document.api_version.rpartition("/")[0], document.kind):
            self._others.put({**document.read(dict), "apiVersion": document.api_version, "kind": document.kind})

    def _tell(self, what: str) -> None:
        self._progress(what, self._count, self._meter.share)


def _unfit(_problem: Problem) -> None:
    raise UnsupportedLayoutError


@contextmanager
def unhurried_collection() -> Iterator[None]:
    """Without the cyclic garbage collector: it would look at every object of a growing heap again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
