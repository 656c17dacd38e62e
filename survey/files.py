"""A snapshot from saved files: what `kubectl get -o yaml` or `-o json` printed (see `SAVE`), in any number of files."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from typing import IO, Any, Final

import msgspec

from controller.spec import GROUP, KIND, Topology
from controller.spec import read as read_topology
from survey.decode import Decoder, KeepMatrix, published, troubled
from survey.documents import Document, documents
from survey.problems import BadInput, Problem
from survey.snapshot import Collector, NodeView, PodView, Published, Snapshot

PUBLISHED: Final = frozenset(
    {
        ("grove.io", "ClusterTopologyBinding"),
        ("grove.io", "ClusterTopology"),
        ("kai.scheduler", "Topology"),
        ("kueue.x-k8s.io", "Topology"),
    }
)
"""Group and kind of the topology resources that schedulers read."""

Progress = Callable[[str, int], None]
"""Told now and then what is being read and how many objects there are so far."""

_STEP: Final = 500


def silent(_what: str, _count: int) -> None:
    """Nobody wants to know."""


def load_files(
    names: Iterable[str],
    stdin: IO[bytes] | None = None,
    progress: Progress = silent,
    keep_matrix: KeepMatrix = troubled,
    others: Collector | None = None,
) -> Snapshot:
    """The cluster in these files (`-`: standard input; directories: everything below them).

    Objects of other kinds are passed over, but for those that `others` wants. Raises BadInput with every problem of
    all files.
    """
    names = list(names)
    problems: list[Problem] = []
    gathered = _Gathered(keep_matrix)
    with unhurried_collection():
        for count, document in enumerate(documents(names, problems.append, stdin), 1):
            try:
                gathered.take(document)
                if others and others.wants(document.api_version.rpartition("/")[0], document.kind):
                    others.put({**document.read(dict), "apiVersion": document.api_version, "kind": document.kind})
            except BadInput as error:
                problems += error.problems
            if not count % _STEP:
                progress(document.place.file, count)
    if problems:
        raise BadInput(*problems)
    return gathered.snapshot(", ".join(names))


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


class _Gathered:
    def __init__(self, keep_matrix: KeepMatrix) -> None:
        self._decode = Decoder(keep_matrix)
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[tuple[str, str], PodView] = {}
        self._any_pods = False
        self._topologies: dict[str, Topology] = {}
        self._published: list[Published] = []

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
                self._published.append(published(document.api_version, document.kind, document.read))
        except (ValueError, msgspec.ValidationError) as error:
            raise document.bad(error) from error

    def snapshot(self, source: str) -> Snapshot:
        warnings = []
        if not self._any_pods:
            warnings.append("there are no Pods in the files, so what is free is not known; save them too: " + SAVE)
        if not self._nodes:
            warnings.append("there are no Nodes in the files; save them with: " + SAVE)
        return Snapshot(
            source=source,
            taken_at=None,
            nodes=tuple(sorted(self._nodes.values(), key=attrgetter("name"))),
            pods=tuple(self._pods.values()) if self._any_pods else None,
            topologies=tuple(sorted(self._topologies.values(), key=attrgetter("name"))),
            published=tuple(self._published),
            warnings=tuple(warnings),
        )


SAVE: Final = "kubectl get nodes,pods,clustertopologies.gpu.topology -A -o json > cluster.json"
"""The command that saves all that a snapshot is made of."""


def topology_of(document: Any) -> Topology:
    """One ClusterTopology. Raises ValueError for an object that the CRD would have refused.

    Of its status, which a file can hold in any form, what no controller writes is left out.
    """
    try:
        found = read_topology(document)
        found = replace(found, status=_sound(found.status))
        hash(found.name)  # whatever else the server refuses, topologies are told apart by their names
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"no ClusterTopology that the API server would take ({type(error).__name__}: {error}); "
            "kubectl apply --dry-run=server tells what is wrong"
        ) from error
    return found


_LISTS: Final = {
    "levels": ("domain", "key"),
    "conditions": ("type", "status"),
    "requiredBy": ("domain",),
    "preferredBy": ("domain",),
    "segments": ("name",),
}
"""Lists of objects in a status that are read here, and what each object has as text."""


def _sound(status: Any) -> Mapping[str, Any]:
    if not isinstance(status, dict):
        raise TypeError("status is no object")
    wrong = {name: _objects(status[name], texts) for name, texts in _LISTS.items() if name in status}
    return status | wrong


def _objects(found: Any, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Those elements that are objects with these texts."""
    elements = found if isinstance(found, list) else ()
    return [
        each for each in elements if isinstance(each, dict) and all(isinstance(each.get(text), str) for text in texts)
    ]
