"""The cluster itself as a source: three collections are watched, and nothing is ever written."""

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from toposcope.api.cluster_topology import PATH, Topology
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import Cluster
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.reflector import EtcdRestores, Raw, Reflector, key
from toposcope.kube.requests import NODES
from toposcope.snapshot.decode import Decoder, topology_of
from toposcope.snapshot.live import PODS, load_published
from toposcope.snapshot.model import NodeView, PodView, Published
from toposcope.topology.hardware import State
from toposcope.ui.annotations import gpu_uuids, last_write, without_matrix
from toposcope.ui.facts import Facts
from toposcope.ui.source import Seen

_NODES: Final = "nodes"
_PODS: Final = "pods"
_TOPOLOGIES: Final = "ClusterTopologies"
EXPECTED: Final = (_NODES, _PODS, _TOPOLOGIES)
_MOST_DECODED: Final = 200_000
"""After so many objects a decoder is replaced: what it shares of pods long gone must not pile up."""
_ENDING: Final = 5.0
"""Seconds to wait for a thread that reads a list."""
_MISSING: Final[Mapping[str, str]] = {
    _PODS: "pods may not be watched with these credentials, so what is free is not known; "
    "grant list and watch on pods in all namespaces",
    _TOPOLOGIES: "ClusterTopologies may not be watched with these credentials, so levels are told from the nodes "
    "alone; grant list and watch on clustertopologies in gpu.topology",
}
"""What is lost without a collection: the page does without it and says so."""

_Item = tuple[NodeView, str]


class GetClient(ApiClient):
    """Sends GET and nothing else."""

    def _about_to_send(self, request: Request) -> None:
        """Raise KubeError for anything that could change the cluster."""
        if request.method != "GET":
            raise KubeError(f"toposcope ui only reads: {request.method} {request.path} is not sent")


class LiveSource:
    """Watches nodes, pods and ClusterTopologies into `facts` until it is closed."""

    kind: Literal["cluster"] = "cluster"

    def __init__(self, cluster: Cluster, facts: Facts) -> None:
        self._cluster = cluster
        self._asking = GetClient(cluster, "toposcope-ui")
        self._facts = facts
        self._stop = threading.Event()
        self._restores = EtcdRestores()
        self._nodes, self._pods = _Fresh(), _Fresh()
        self._following: list[tuple[threading.Thread, Reflector[Any], GetClient]] = []

    def start(self) -> None:
        """Begin to watch, in threads that end with the program."""
        self._follow(_NODES, NODES, self._node, _Nodes(self._facts, _NODES))
        self._follow(_PODS, PODS, self._pod, _Pods(self._facts, _PODS))
        self._follow(_TOPOLOGIES, PATH, _topology, _Topologies(self._facts, _TOPOLOGIES))

    def _follow(self, what: str, path: str, decode: Callable[[Raw], Any], handler: "_Handler") -> None:
        # A client of its own for each: one that reads pages for minutes must not keep the others waiting.
        client = GetClient(self._cluster, "toposcope-ui")
        reflector: Reflector[Any] = Reflector(
            client, path, decode, handler, self._stop, observer=handler, restores=self._restores
        )
        thread = threading.Thread(target=reflector.run, name=what, daemon=True)
        thread.start()
        self._following.append((thread, reflector, client))

    def close(self) -> None:
        """End the threads and close the connections."""
        self._stop.set()
        for _, reflector, _ in self._following:
            reflector.relist()  # cuts its stream
        for thread, _, client in self._following:
            thread.join(_ENDING)
            client.close()
        self._asking.close()

    def node(self, name: str) -> Seen | None:
        """One node with its matrix, asked for now. Raises KubeError."""
        try:
            raw = self._asking.read(Request("GET", f"{NODES}/{name}", {}))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return Seen(Decoder(_keep).node(_reader(raw)), last_write(_WRITTEN.decode(raw).metadata.managed_fields))

    def published(self) -> tuple[tuple[Published, ...], tuple[str, ...]]:
        """What schedulers have been given, and what of it may not be read. Raises KubeError."""
        return load_published(self._asking)

    def _node(self, raw: Raw) -> tuple[str, str, _Item]:
        node = self._nodes.decoder().node(_reader(raw))
        kept = node if node.state not in (State.OK, None) else without_matrix(node)
        return node.name, _OBJECT.decode(raw).metadata.resource_version, (kept, gpu_uuids(node.matrix))

    def _pod(self, raw: Raw) -> tuple[str, str, PodView | None]:
        meta = _OBJECT.decode(raw).metadata
        return key(meta.namespace, meta.name), meta.resource_version, self._pods.decoder().pod(_reader(raw))


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


class _WrittenMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    managed_fields: list[dict[str, Any]] = []


class _Written(msgspec.Struct, frozen=True, gc=False):
    metadata: _WrittenMeta


_OBJECT: Final = msgspec.json.Decoder(_Object)
_WRITTEN: Final = msgspec.json.Decoder(_Written)


def _topology(raw: Raw) -> tuple[str, str, Topology]:
    found = topology_of(msgspec.json.decode(raw))
    return found.name, _OBJECT.decode(raw).metadata.resource_version, found


def _reader(raw: Raw) -> Callable[[type[Any]], Any]:
    return lambda kind: msgspec.json.decode(raw, type=kind)


def _keep(_name: str, _not_ok: bool) -> bool:
    return True


class _Fresh:
    """A decoder that is made anew now and then. For one thread."""

    def __init__(self) -> None:
        self._count = 0
        self._decoder = Decoder(_keep)

    def decoder(self) -> Decoder:
        self._count += 1
        if not self._count % _MOST_DECODED:
            self._decoder = Decoder(_keep)
        return self._decoder


class _Handler:
    """What the handlers and observers of all collections share; see `toposcope.kube.reflector`."""

    def __init__(self, facts: Facts, what: str) -> None:
        self._facts = facts
        self._what = what

    def listed(self, path: str, reason: str) -> None:
        """No news for the page."""

    def heard(self, path: str) -> None:  # noqa: ARG002 - the protocol's
        self._facts.heard(self._what)

    def ended(self, path: str) -> None:
        """Nor is that."""

    def failing(self, error: KubeError | None) -> None:
        """The collection cannot be read just now; without some of them the page does."""
        status = error.status if isinstance(error, ApiError) else None
        if error is None:
            self._facts.warn(self._what, "")
            self._facts.looked(self._what)
        elif status == HTTPStatus.NOT_FOUND and self._what == _TOPOLOGIES:  # no CRD: no controller has been here
            self._without("")
        elif status == HTTPStatus.FORBIDDEN and self._what in _MISSING:
            self._without(f"{_MISSING[self._what]} ({error})")
        else:
            self._facts.failing(self._what, str(error))

    def _without(self, warning: str) -> None:
        self._facts.warn(self._what, warning)
        self._lost()
        self._facts.looked(self._what)

    def _lost(self) -> None:
        """The collection may not be read, or is not there."""

    def replace(self, items: Mapping[str, Any]) -> None:
        """As in `toposcope.kube.reflector.Handler`, like the two that follow."""
        raise NotImplementedError

    def put(self, name: str, item: Any) -> None:
        raise NotImplementedError

    def gone(self, name: str) -> None:
        raise NotImplementedError


class _Nodes(_Handler):
    def replace(self, items: Mapping[str, _Item]) -> None:
        self._facts.replace_nodes(items)
        self._facts.looked(self._what)

    def put(self, _name: str, item: _Item) -> None:
        self._facts.put_node(*item)

    def gone(self, name: str) -> None:
        self._facts.node_gone(name)


class _Pods(_Handler):
    def replace(self, items: Mapping[str, PodView | None]) -> None:
        self._facts.replace_pods(items)
        self._facts.looked(self._what)

    def put(self, name: str, item: PodView | None) -> None:
        self._facts.put_pod(name, item)

    def gone(self, name: str) -> None:
        self._facts.put_pod(name, None)

    def _lost(self) -> None:
        self._facts.replace_pods(None)


class _Topologies(_Handler):
    def replace(self, items: Mapping[str, Topology]) -> None:
        self._facts.replace_topologies(items)
        self._facts.looked(self._what)

    def put(self, _name: str, item: Topology) -> None:
        self._facts.put_topology(item)

    def gone(self, name: str) -> None:
        self._facts.topology_gone(name)

    def _lost(self) -> None:
        self._facts.replace_topologies({})
