"""A snapshot from saved files: what kubectl printed (see `SAVE`), or `toposcope save`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import attrgetter
from typing import IO, Any, Final, NamedTuple, TypeVar

import msgspec

from toposcope.api.cluster_topology import GROUP, KIND, Topology
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.kube.listing import UNREADABLE
from toposcope.snapshot import decode
from toposcope.snapshot.cutter import LIMIT
from toposcope.snapshot.documents import Document, TakeList, check_text, documents
from toposcope.snapshot.kinds import (
    CONFIGURATION_KEYS,
    CONFIGURED,
    OBJECT_KEYS,
    PUBLISHED_KEYS,
    keepers,
)
from toposcope.snapshot.model import (
    SAVE,
    Collector,
    NodeView,
    PodView,
    PublishedTopology,
    Snapshot,
    with_devices,
)
from toposcope.snapshot.packed import unpacked
from toposcope.snapshot.problems import InputError, Meter, Place, Problem, Progress, silent
from toposcope.snapshot.sources import STDIN, Source, sources

_REPORT_EVERY: Final = 500

_Named = TypeVar("_Named", NodeView, Topology)


class _Identity(NamedTuple):
    """The identity of an object; the group is part of it, as several systems have a PodGroup."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class _Builder:
    """Collects objects; of several with the same name the last one counts."""

    decoder: decode.Decoder
    others: Collector | None
    progress: Progress
    meter: Meter
    limit: int
    _count: int = 0
    _nodes: dict[str, NodeView] = field(default_factory=dict)
    _pods: dict[tuple[str, str], PodView] = field(default_factory=dict)
    _has_pods: bool = False
    _saved_pods: list[Sequence[PodView]] = field(default_factory=list)
    _topologies: dict[str, Topology] = field(default_factory=dict)
    _published: dict[tuple[str, str, str], PublishedTopology] = field(default_factory=dict)
    _profiles: list[SchedulerProfiles | None] = field(default_factory=list)
    _objects: dict[_Identity, Mapping[str, Any] | None] = field(default_factory=dict)
    _catalogue: Catalogue = BUILT_IN
    _knows_pod_rules: bool = True

    @property
    def _takes_lists(self) -> bool:
        """Whether Nodes and Pods can be taken many at a time, because nothing needs all of it."""
        if self.others is None:
            return True
        return not self.others.wants("", "Node") and not self.others.wants("", "Pod")

    def add_snapshot(self, saved: Snapshot) -> None:
        """Add a whole snapshot; its pods are not read unless other files hold pods too."""
        for node in saved.nodes:
            self._nodes[node.name] = node
        self.decoder.unready_agents.update(saved.unready_agents)
        if saved.pods is not None:
            self._saved_pods.append(saved.pods)
            self._knows_pod_rules &= saved.knows_pod_rules

        for topology in saved.topologies:
            self._topologies[topology.name] = topology
        for resource in saved.published:
            self._add_published(resource)
        self._profiles.append(saved.scheduler_profiles)
        self._catalogue = saved.catalogue

        # They went through `keepers` when they were saved, or are of kinds that have no keeper:
        # what planning reads is saved too.
        for document in saved.objects:
            self._objects[_identity(document)] = document

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
        for document in documents(
            [source],
            problems.append,
            stdin,
            on_read=self.meter.read,
            take_list=take_list,
            limit=self.limit,
        ):
            try:
                self._add(document)
                self._put(document)
            except InputError as error:
                problems += error.problems

            self._count += 1
            if not self._count % _REPORT_EVERY:
                self._report(document.place)

        return problems

    def _report(self, place: Place) -> None:
        """Say how far reading has come."""
        self.progress(place.file, self._count, self.meter.share)

    def _put(self, document: Document) -> None:
        """Give the whole object to `others`, if they want it.

        Raises InputError for a name that the API server would refuse.
        """
        if not self.others or not self.others.wants(document.group, document.kind):
            return

        values = document.read(dict)
        try:
            decode.checked_names(**_names_in(values))
        except ValueError as error:
            raise document.bad(error) from error

        self.others.put(values | _type_of(document))

    def _add(self, document: Document) -> None:
        """Add one object; unknown kinds are skipped. Raises InputError."""
        try:
            self._add_valid(document)
        except (ValueError, msgspec.ValidationError) as error:
            raise document.bad(error) from error

    def _add_valid(self, document: Document) -> None:
        kind = document.group, document.kind
        if kind == ("", "Node"):
            node = self.decoder.node(document.read)
            self._nodes[node.name] = node
        elif kind == ("", "Pod"):
            self._has_pods = True
            self._add_pod(self.decoder.pod(document.read))
        elif kind == (GROUP, KIND):
            topology = decode.topology_of(document.read(dict))
            self._topologies[topology.name] = topology
        elif kind == ("", "ConfigMap"):
            self._profiles.append(decode.profiles(CONFIGURED, document.read))
            self._add_configurations(document)
        elif kind in PUBLISHED_KEYS:
            resource = decode.published(document.api_version, document.kind, document.read)
            self._add_published(resource)
        elif kind in OBJECT_KEYS:
            keep = keepers()[kind]
            typed_object = document.read(dict) | _type_of(document)
            self._objects[_identity(typed_object)] = keep(typed_object)

    def _add_configurations(self, document: Document) -> None:
        """Add the configurations of operators in a ConfigMap that decide about places."""
        for configuration in decode.configured_objects(CONFIGURATION_KEYS, document.read):
            keep = keepers()[kind_of(configuration)]
            self._objects[_identity(configuration)] = keep(configuration)

    def _add_pod(self, pod: PodView | None) -> None:
        if pod:
            self._pods[pod.namespace, pod.name] = pod

    def _add_list(self, place: Place, text: bytes) -> int:
        """Add the Nodes and Pods of a JSON list, and return how many.

        A list that has anything else is left alone: then 0 is returned.
        """
        try:
            check_text(text)
            nodes, pods = self.decoder.listed(text)
        except (*UNREADABLE, ValueError):
            return 0

        for node in nodes:
            self._nodes[node.name] = node
        for pod in pods:
            self._add_pod(pod)
        if pods:
            self._has_pods = True

        taken = len(nodes) + len(pods)
        self._count += taken
        self._report(place)
        return taken

    def _add_published(self, resource: PublishedTopology) -> None:
        self._published[resource.api_version, resource.kind, resource.name] = resource

    def snapshot(self, source: str) -> Snapshot:
        """The snapshot of everything that was added."""
        warnings = self.decoder.warnings()
        pods = self._all_pods()
        if not self._nodes:
            warnings.append("there are no Nodes in the files; save them with: " + SAVE)

        objects = filter(None, self._objects.values())
        snapshot = Snapshot(
            source=source,
            taken_at=None,
            nodes=_by_name(self._nodes.values()),
            pods=pods,
            unready_agents=self.decoder.unready_agents,
            topologies=_by_name(self._topologies.values()),
            published=tuple(self._published.values()),
            scheduler_profiles=decode.only(self._profiles),
            objects=tuple(objects),
            warnings=tuple(warnings),
            lacks_pods=pods is None,
            knows_pod_rules=self._knows_pod_rules,
            catalogue=self._catalogue,
        )
        return with_devices(snapshot)

    def _all_pods(self) -> Sequence[PodView] | None:
        """The pods of all files; those of a single saved file are not read here."""
        if not self._has_pods:
            if not self._saved_pods:
                return None
            if len(self._saved_pods) == 1:
                return self._saved_pods[0]

        every: dict[tuple[str, str], PodView] = {}
        for pods in self._saved_pods:
            for pod in pods:
                every[pod.namespace, pod.name] = pod
        every.update(self._pods)
        return tuple(every.values())


def _identity(document: Mapping[str, Any]) -> _Identity:
    root = Field(document)
    group, kind = kind_of(document)
    return _Identity(group, kind, namespace_of(root), name_of(root))


def _names_in(values: Mapping[str, Any]) -> dict[str, str]:
    """The name and namespace of an object, as far as they are texts."""
    metadata = values.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    names = {}
    for field_name in ("name", "namespace"):
        name = metadata.get(field_name)
        if isinstance(name, str):
            names[field_name] = name
    return names


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
        why = error.strerror or str(error)
        raise InputError(Problem(Place(source.name), "", why)) from error


def load_files(
    names: Iterable[str],
    stdin: IO[bytes] | None = None,
    *,
    progress: Progress = silent,
    keep_matrix: decode.KeepMatrix = decode.keep_degraded,
    others: Collector | None = None,
    limit: int = LIMIT,
) -> Snapshot:
    """The cluster in these files (`-`: standard input; directories recursively).

    Files of `toposcope save` can be combined with other files; an object in both counts as it
    stands in the other file. Objects of unknown kinds are skipped, except those that `others`
    wants. `limit` is the most bytes that one document may have. Raises InputError with every
    problem of all files.
    """
    names = list(names)
    with decode.paused_gc(), ExitStack() as keep:
        packed: list[Source] = []
        plain: list[Source] = []
        for source in sources(names, keep):
            if source.is_packed:
                packed.append(source)
            else:
                plain.append(source)

        saved = [_saved(source, keep_matrix, limit) for source in packed]
        _put_objects(saved, others)
        if len(saved) == len(names) == 1:
            return saved[0]

        builder = _Builder(
            decoder=decode.Decoder(keep_matrix),
            others=others,
            progress=progress,
            meter=Meter(source.name for source in plain),
            limit=limit,
        )
        for snapshot in saved:
            builder.add_snapshot(snapshot)
        problems: list[Problem] = []
        for source in plain:
            problems += builder.read(source, stdin)
    if problems:
        raise InputError(*problems)

    return builder.snapshot(", ".join(names))


def _put_objects(saved: Iterable[Snapshot], others: Collector | None) -> None:
    """Give the objects of saved snapshots to `others`, if they want them."""
    if others is None:
        return
    for snapshot in saved:
        for document in snapshot.objects:
            if others.wants(*kind_of(document)):
                others.put(document)
