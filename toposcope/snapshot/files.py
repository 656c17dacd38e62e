"""A snapshot from saved files: what kubectl printed (see `SAVE`), or `toposcope save`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from operator import attrgetter
from typing import IO, Any, Final, TypeVar

import msgspec

from toposcope.api.cluster_topology import GROUP, KIND, Topology
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.kube.listing import UNREADABLE
from toposcope.snapshot import decode
from toposcope.snapshot.cutter import LIMIT
from toposcope.snapshot.documents import Document, TakeList, check_text, documents
from toposcope.snapshot.kinds import CONFIGURED, OBJECT_KEYS, PUBLISHED_KEYS, keepers
from toposcope.snapshot.model import (
    NO_PODS,
    SAVE,
    Collector,
    NodeView,
    PodView,
    Published,
    Snapshot,
    with_devices,
)
from toposcope.snapshot.packed import unpacked
from toposcope.snapshot.problems import InputError, Meter, Place, Problem, Progress, silent
from toposcope.snapshot.sources import STDIN, Source, sources

_REPORT_EVERY: Final = 500

_Named = TypeVar("_Named", NodeView, Topology)


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
        self._progress = progress
        self._limit = limit
        self._meter = meter
        self._count = 0
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[tuple[str, str], PodView] = {}
        self._has_pods = False
        self._catalogue = BUILT_IN
        self._saved_pods: list[Sequence[PodView]] = []
        self._topologies: dict[str, Topology] = {}
        self._published: dict[tuple[str, str, str], Published] = {}
        self._profiles: list[SchedulerProfiles | None] = []
        self._objects: dict[tuple[str, str, str], Mapping[str, Any] | None] = {}

    @property
    def _takes_lists(self) -> bool:
        """Whether nobody wants what a snapshot does not keep of Nodes and Pods."""
        if self._others is None:
            return True

        return not any(self._others.wants("", kind) for kind in ("Node", "Pod"))

    def add_snapshot(self, saved: Snapshot) -> None:
        """Add a whole snapshot; its pods are not read unless other files hold some too."""
        for node in saved.nodes:
            self._nodes[node.name] = node

        if saved.pods is not None:
            self._saved_pods.append(saved.pods)

        for topology in saved.topologies:
            self._topologies[topology.name] = topology

        for resource in saved.published:
            self._add_published(resource)

        self._profiles.append(saved.scheduler_profiles)
        for document in saved.objects:
            self._add_object(document)

        self._catalogue = saved.catalogue

    def read(self, source: Source, stdin: IO[bytes] | None) -> list[Problem]:
        """Add the objects in a file or directory, a pipe or standard input; the problems in it."""
        can_reread = source.name != STDIN and source.stream is None
        if self._takes_lists and can_reread and not self._read(source, None, self._add_list):
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
                self._put(document)
            except InputError as error:
                problems += error.problems

            self._count += 1
            if not self._count % _REPORT_EVERY:
                self._progress(document.place.file, self._count, self._meter.share)

        return problems

    def _put(self, document: Document) -> None:
        """Give it to whoever wants it.

        Raises InputError for a name that the API server would refuse.
        """
        if not self._others or not self._others.wants(document.group, document.kind):
            return

        values = document.read(dict)
        metadata = values.get("metadata")
        names = {}

        for field in ("name", "namespace"):
            name = metadata.get(field) if isinstance(metadata, dict) else None
            if isinstance(name, str):
                names[field] = name

        try:
            decode.checked_names(**names)
        except ValueError as error:
            raise document.bad(error) from error

        self._others.put(values | _type_of(document))

    def _add(self, document: Document) -> None:
        """Add one object; those of other kinds are skipped. Raises InputError."""
        try:
            self._add_valid(document)
        except (ValueError, msgspec.ValidationError) as error:
            raise document.bad(error) from error

    def _add_valid(self, document: Document) -> None:
        kind = document.group, document.kind
        if kind == ("", "Node"):
            node = self._decode.node(document.read)
            self._nodes[node.name] = node
        elif kind == ("", "Pod"):
            self._has_pods = True
            self._add_pod(self._decode.pod(document.read))
        elif kind == (GROUP, KIND):
            topology = decode.topology_of(document.read(dict))
            self._topologies[topology.name] = topology
        elif kind == ("", "ConfigMap"):
            self._profiles.append(decode.profiles(CONFIGURED, document.read))
        elif kind in PUBLISHED_KEYS:
            resource = decode.published(document.api_version, document.kind, document.read)
            self._add_published(resource)
        elif kind in OBJECT_KEYS:
            self._add_object({**document.read(dict), **_type_of(document)})

    def _add_pod(self, pod: PodView | None) -> None:
        if pod:
            self._pods[pod.namespace, pod.name] = pod

    def _add_list(self, place: Place, text: bytes) -> int:
        """Add the Nodes and Pods of a JSON list, and return how many.

        Nothing and 0 where it has anything else.
        """
        try:
            check_text(text)
            nodes, pods = self._decode.listed(text)
        except (*UNREADABLE, ValueError):
            return 0

        for node in nodes:
            self._nodes[node.name] = node

        for pod in pods:
            self._add_pod(pod)

        self._has_pods = self._has_pods or bool(pods)
        taken = len(nodes) + len(pods)
        self._count += taken
        self._progress(place.file, self._count, self._meter.share)
        return taken

    def _add_published(self, resource: Published) -> None:
        self._published[resource.api_version, resource.kind, resource.name] = resource

    def _add_object(self, document: Mapping[str, Any]) -> None:
        root = Field(document)
        key = kind_of(document)
        _, kind = key
        self._objects[kind, namespace_of(root), name_of(root)] = keepers()[key](document)

    def snapshot(self, source: str) -> Snapshot:
        """The snapshot of everything that was added."""
        warnings = self._decode.warnings()
        pods = self._all_pods()
        if pods is None:
            warnings.append(NO_PODS)

        if not self._nodes:
            warnings.append("there are no Nodes in the files; save them with: " + SAVE)

        snapshot = Snapshot(
            source=source,
            taken_at=None,
            nodes=_by_name(self._nodes.values()),
            pods=pods,
            topologies=_by_name(self._topologies.values()),
            published=tuple(self._published.values()),
            scheduler_profiles=decode.only(self._profiles),
            objects=tuple(filter(None, self._objects.values())),
            warnings=tuple(warnings),
            catalogue=self._catalogue,
        )

        return with_devices(snapshot)

    def _all_pods(self) -> Sequence[PodView] | None:
        if not self._has_pods and len(self._saved_pods) <= 1:
            return self._saved_pods[0] if self._saved_pods else None

        every: dict[tuple[str, str], PodView] = {}
        for pods in self._saved_pods:
            for pod in pods:
                every[pod.namespace, pod.name] = pod

        every.update(self._pods)
        return tuple(every.values())


def _type_of(document: Document) -> dict[str, str]:
    return {"apiVersion": document.api_version, "kind": document.kind}


def _by_name(objects: Iterable[_Named]) -> tuple[_Named, ...]:
    return tuple(sorted(objects, key=attrgetter("name")))


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
    *,
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
        packed: list[Source] = []
        plain: list[Source] = []
        for source in sources(names, keep):
            (packed if source.packed else plain).append(source)

        saved = [_saved(source, keep_matrix, limit) for source in packed]
        _put_objects(saved, others)
        if len(saved) == len(names) == 1:
            return saved[0]

        meter = Meter(source.name for source in plain)
        builder = _Builder(keep_matrix, others, progress, meter, limit)
        for snapshot in saved:
            builder.add_snapshot(snapshot)

        problems: list[Problem] = []
        for source in plain:
            problems += builder.read(source, stdin)

    if problems:
        raise InputError(*problems)

    return builder.snapshot(", ".join(names))


def _put_objects(saved: Iterable[Snapshot], others: Collector | None) -> None:
    """Give what saved snapshots have to whoever wants it."""
    if others is None:
        return

    for snapshot in saved:
        for document in snapshot.objects:
            if others.wants(*kind_of(document)):
                others.put(document)
