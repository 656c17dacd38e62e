"""A snapshot in the making: objects out of files, one after the other."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec

from controller.spec import GROUP, KIND, Topology
from survey.cluster_topology import topology_of
from survey.decode import Decoder, KeepMatrix, Raw, published
from survey.documents import Document
from survey.snapshot import NodeView, PodView, Published, Snapshot
from topology.catalogue import BUILT_IN

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
