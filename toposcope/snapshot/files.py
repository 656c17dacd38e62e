"""A snapshot from saved files: what `kubectl get -o yaml` or `-o json` printed (see `SAVE`), or `toposcope save`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from operator import attrgetter
from typing import IO, Any, Final

import msgspec

from toposcope.api.cluster_topology import GROUP, KIND, Topology
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.dra import api as dra
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.kueue import queues
from toposcope.integrations.registry import DECISIVE, PUBLISHED
from toposcope.kube.listing import UNREADABLE
from toposcope.snapshot import decode
from toposcope.snapshot.cutter import LIMIT
from toposcope.snapshot.documents import Document, TakeList, check_text, documents
from toposcope.snapshot.model import Collector, NodeView, PodView, Published, Snapshot, with_devices
from toposcope.snapshot.packed import unpacked
from toposcope.snapshot.problems import InputError, Meter, Place, Problem, Progress, silent
from toposcope.snapshot.sources import STDIN, Source, sources

_PUBLISHED: Final = frozenset((kind.group, kind.kind) for kind in PUBLISHED)
_OBJECTS: Final = {
    kind.key: kept
    for kept, kinds in ((queues.kept, DECISIVE), (dra.kept, (*dra.READ, *dra.ASKED)))
    for kind in kinds
}
SAVE: Final = "kubectl get nodes,pods,clustertopologies.gpu.topology -A -o json > cluster.json"
"""The command that saves everything a snapshot is made of."""
_REPORT_EVERY: Final = 500


class _Builder:
    """Collects objects; of several with the same name the last one counts."""

    def __init__(
        self,
        keep_matrix: decode.KeepMatrix,
        others: Collector | None,
        progress: Progress,
        meter: Meter,
        limit: int,
    ) -> None:
        self._decode = decode.Decoder(keep_matrix)
        self._others = others
        # What a snapshot does not keep of Nodes and Pods may be wanted too.
        self._in_lists = not (others and any(others.wants("", kind) for kind in ("Node", "Pod")))
        self._progress = progress
        self._limit = limit
        self._meter = meter
        self._count = 0
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[tuple[str, str], PodView] = {}
        self._any_pods = False
        self._catalogue = BUILT_IN
        self._saved_pods: list[Sequence[PodView]] = []
        self._topologies: dict[str, Topology] = {}
        self._published: dict[tuple[str, str, str], Published] = {}
        self._grove: list[SchedulerProfiles | None] = []
        self._objects: dict[tuple[str, str, str], Mapping[str, Any] | None] = {}

    def add_snapshot(self, saved: Snapshot) -> None:
        """Add a whole snapshot; its pods are not read unless other files hold some too."""
        self._nodes.update((node.name, node) for node in saved.nodes)
        self._saved_pods += [saved.pods] if saved.pods is not None else []
        self._topologies.update((topology.name, topology) for topology in saved.topologies)
        for resource in saved.published:
            self._add_published(resource)
        self._grove.append(saved.grove)
        for document in saved.objects:
            self._add_object(document)
        self._catalogue = saved.catalogue

    def read(self, source: Source, stdin: IO[bytes] | None) -> list[Problem]:
        """Add the objects in a file or directory, a pipe or standard input; the problems in it."""
        rereadable = source.name != STDIN and source.stream is None
        if self._in_lists and rereadable and not self._read(source, None, self._add_list):
            return []
        return self._read(source, stdin, None)  # with the line of each problem

    def _read(
        self, source: Source, stdin: IO[bytes] | None, take_list: TakeList | None
    ) -> list[Problem]:
        problems: list[Problem] = []
        found = documents(
            [source],
            problems.append,
            stdin,
            on_read=self._meter.read,
            take_list=take_list,
            limit=self._limit,
        )
        for document in found:
            try:
                self._add(document)
                if self._others and self._others.wants(document.group, document.kind):
                    named = {"apiVersion": document.api_version, "kind": document.kind}
                    self._put(document, named)
            except InputError as error:
                problems += error.problems
            self._count += 1
            if not self._count % _REPORT_EVERY:
                self._progress(document.place.file, self._count, self._meter.share)
        return problems

    def _put(self, document: Document, named: dict[str, str]) -> None:
        """Give it to whoever wants it.

        Raises InputError for a name that the API server would refuse.
        """
        values = document.read(dict)
        metadata = values.get("metadata")
        given = metadata if isinstance(metadata, dict) else {}
        try:
            decode.checked_names(
                **{
                    field: given[field]
                    for field in ("name", "namespace")
                    if isinstance(given.get(field), str)
                }
            )
        except ValueError as error:
            raise document.bad(error) from error
        if self._others:
            self._others.put(values | named)

    def _add(self, document: Document) -> None:
        """Add one object; those of other kinds are skipped. Raises InputError."""
        kind = document.group, document.kind
        try:
            if kind == ("", "Node"):
                node = self._decode.node(document.read)
                self._nodes[node.name] = node
            elif kind == ("", "Pod"):
                self._any_pods = True
                pod = self._decode.pod(document.read)
                if pod:
                    self._pods[pod.namespace, pod.name] = pod
            elif kind == (GROUP, KIND):
                topology = decode.topology_of(document.read(dict))
                self._topologies[topology.name] = topology
            elif kind == ("", "ConfigMap"):
                self._grove.append(decode.configuration(document.read))
            elif kind in _PUBLISHED:
                self._add_published(
                    decode.published(document.api_version, document.kind, document.read)
                )
            elif kind in _OBJECTS:
                named = {"apiVersion": document.api_version, "kind": document.kind}
                self._add_object({**document.read(dict), **named})
        except (ValueError, msgspec.ValidationError) as error:
            raise document.bad(error) from error

    def _add_list(self, place: Place, text: bytes) -> int:
        """Add the Nodes and Pods of a JSON list, and return how many; nothing and 0 where it has anything else."""
        try:
            check_text(text)
            nodes, pods = self._decode.listed(text)
        except (*UNREADABLE, ValueError):
            return 0
        self._nodes.update((node.name, node) for node in nodes)
        self._pods.update(((pod.namespace, pod.name), pod) for pod in pods if pod)
        self._any_pods = self._any_pods or bool(pods)
        taken = len(nodes) + len(pods)
        self._count += taken
        self._progress(place.file, self._count, self._meter.share)
        return taken

    def _add_published(self, resource: Published) -> None:
        self._published[resource.api_version, resource.kind, resource.name] = resource

    def _add_object(self, document: Mapping[str, Any]) -> None:
        root = Field(document)
        kind = kind_of(document)
        self._objects[kind[1], namespace_of(root), name_of(root)] = _OBJECTS[kind](document)

    def snapshot(self, source: str) -> Snapshot:
        """The snapshot of everything that was added."""
        warnings = self._decode.warnings()
        pods = self._all_pods()
        if pods is None:
            warnings.append(
                "there are no Pods in the files, so free GPUs are unknown; save them too: " + SAVE
            )
        if not self._nodes:
            warnings.append("there are no Nodes in the files; save them with: " + SAVE)
        snapshot = Snapshot(
            source=source,
            taken_at=None,
            nodes=tuple(sorted(self._nodes.values(), key=attrgetter("name"))),
            pods=pods,
            topologies=tuple(sorted(self._topologies.values(), key=attrgetter("name"))),
            published=tuple(self._published.values()),
            grove=decode.only(self._grove),
            objects=tuple(document for document in self._objects.values() if document is not None),
            warnings=tuple(warnings),
            catalogue=self._catalogue,
        )
        return with_devices(snapshot)

    def _all_pods(self) -> Sequence[PodView] | None:
        if not self._any_pods and len(self._saved_pods) <= 1:
            return self._saved_pods[0] if self._saved_pods else None
        saved = {(pod.namespace, pod.name): pod for pods in self._saved_pods for pod in pods}
        return tuple((saved | self._pods).values())


def _saved(source: Source, keep_matrix: decode.KeepMatrix, limit: int) -> Snapshot:
    """The snapshot of a file of `toposcope save`. Raises InputError."""
    try:
        with source.opened() as stream:
            return unpacked(source.name, stream, keep_matrix, limit)
    except OSError as error:
        raise InputError(Problem(Place(source.name), "", error.strerror or str(error))) from error


def load_files(
    names: Iterable[str],
    stdin: IO[bytes] | None = None,
    progress: Progress = silent,
    keep_matrix: decode.KeepMatrix = decode.degraded,
    others: Collector | None = None,
    limit: int = LIMIT,
) -> Snapshot:
    """The cluster in these files (`-`: standard input; directories recursively).

    Files of `toposcope save` can stand beside others; of an object in both, the other file's
    counts. Objects of other kinds are skipped, except those that `others` wants. `limit` is how
    many bytes one document may have. Raises InputError with every problem of all files.
    """
    names = list(names)
    with decode.paused_gc(), ExitStack() as keep:
        given = sources(names, keep)
        saved = [_saved(source, keep_matrix, limit) for source in given if source.packed]
        for document in (document for snapshot in saved for document in snapshot.objects):
            if others and others.wants(*kind_of(document)):
                others.put(document)
        if len(saved) == len(names) == 1:
            return saved[0]
        plain = [source for source in given if not source.packed]
        builder = _Builder(
            keep_matrix, others, progress, Meter(source.name for source in plain), limit
        )
        for snapshot in saved:
            builder.add_snapshot(snapshot)
        problems = [problem for source in plain for problem in builder.read(source, stdin)]
    if problems:
        raise InputError(*problems)
    return builder.snapshot(", ".join(names))
