"""The cluster itself as a source: three collections are watched, and nothing is ever written."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from toposcope.api.cluster_topology import PATH, Topology
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.kube.listing import UNREADABLE
from toposcope.kube.reflector import Raw, Reflector, key
from toposcope.kube.requests import NODES
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.decode import Decoder, keep_every, topology_of
from toposcope.snapshot.live import PODS, load_published
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.ui.facts import Facts
from toposcope.ui.source import FullNode, cached_view, gpu_uuids, last_write

_TOPOLOGIES: Final = "ClusterTopologies"
EXPECTED: Final = ("nodes", "pods", _TOPOLOGIES)
_MAX_DECODED: Final = 200_000
"""Objects after which a decoder is replaced: values of deleted pods must not pile up."""
_JOIN_SECONDS: Final = 5.0
"""How long to wait for a thread that is reading a list."""
_WITHOUT: Final[Mapping[str, str]] = {
    "pods": "these credentials cannot watch pods, so free resources are unknown; "
    "grant list and watch on pods in all namespaces",
    _TOPOLOGIES: "these credentials cannot watch ClusterTopologies, "
    "so levels are inferred from node "
    "labels; grant list and watch on clustertopologies in gpu.topology",
}
"""The page's warning where a collection cannot be read."""


class GetClient(ApiClient):
    """Sends GET and nothing else."""

    def _about_to_send(self, request: Request) -> None:
        """Raise KubeError for anything that could change the cluster."""
        if request.method != "GET":
            raise KubeError(f"toposcope ui only reads: {request.method} {request.path} is not sent")


@dataclass(frozen=True, slots=True)
class _Watch:
    """A collection that is watched in a thread of its own."""

    thread: threading.Thread
    reflector: Reflector[Any]
    client: GetClient


class LiveSource:
    """Watches nodes, pods and ClusterTopologies into `facts` until it is closed."""

    kind: Literal["cluster"] = "cluster"

    def __init__(
        self,
        cluster: ClusterAccess,
        facts: Facts,
        program: str = "toposcope-ui",
        *,
        can_read_pods: bool = True,
    ) -> None:
        """`program` is for the API server's audit log; pods that cannot be read are unknown."""
        self._cluster = cluster
        self._program = program
        self._can_read_pods = can_read_pods
        self._client = GetClient(cluster, program)
        self._facts = facts
        self._stop = threading.Event()
        self._watches: list[_Watch] = []

    def start(self) -> None:
        """Start to watch, in threads that end with the program."""
        self._watch_nodes()
        if self._can_read_pods:
            self._watch_pods()
        else:
            self._facts.replace_pods(None)
            self._facts.mark_synced("pods")
        self._watch_topologies()

    def _watch_nodes(self) -> None:
        facts = self._facts
        decoder = _RenewedDecoder()

        def decode(raw: Raw) -> tuple[str, str, tuple[NodeView, str]]:
            node = decoder.get().node(_reader(raw))
            meta = _OBJECT.decode(raw).metadata
            item = cached_view(node), gpu_uuids(node.matrix)
            return node.name, meta.resource_version, item

        def put(_name: str, item: tuple[NodeView, str]) -> None:
            facts.put_node(*item)

        handler = _Handler(
            facts,
            "nodes",
            replace_all=facts.replace_nodes,
            put=put,
            gone=facts.delete_node,
        )
        self._watch(NODES, decode, handler)

    def _watch_pods(self) -> None:
        facts = self._facts
        decoder = _RenewedDecoder()

        def decode(raw: Raw) -> tuple[str, str, PodView | None]:
            meta = _OBJECT.decode(raw).metadata
            pod = decoder.get().pod(_reader(raw))
            return key(meta.namespace, meta.name), meta.resource_version, pod

        handler = _Handler(
            facts,
            "pods",
            replace_all=facts.replace_pods,
            put=facts.put_pod,
            gone=partial(facts.put_pod, pod=None),
            forget=partial(facts.replace_pods, None),
        )
        self._watch(PODS, decode, handler)

    def _watch_topologies(self) -> None:
        facts = self._facts
        handler = _Handler(
            facts,
            _TOPOLOGIES,
            replace_all=facts.replace_topologies,
            put=facts.put_topology,
            gone=partial(facts.put_topology, topology=None),
            forget=partial(facts.replace_topologies, {}),
        )
        self._watch(PATH, _topology, handler)

    def _watch(self, path: str, decode: Callable[[Raw], Any], handler: "_Handler") -> None:
        # Each watch has a client of its own: one that reads pages for minutes must not keep the
        # others waiting.
        client = GetClient(self._cluster, self._program)
        reflector: Reflector[Any] = Reflector(
            client, path, decode, handler, self._stop, observer=handler
        )
        thread = threading.Thread(target=reflector.run, name=handler.collection, daemon=True)
        thread.start()
        self._watches.append(_Watch(thread, reflector, client))

    def close(self) -> None:
        """End the threads and close the connections."""
        self._stop.set()
        for watch in self._watches:
            watch.reflector.relist()  # cuts its stream
        for watch in self._watches:
            watch.thread.join(_JOIN_SECONDS)
            watch.client.close()
        self._client.close()

    def node(self, name: str) -> FullNode | None:
        """One node with its matrix, read now. Raises KubeError."""
        try:
            raw = self._client.read(Request("GET", f"{NODES}/{name}", {}))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

        try:
            managed = _WRITTEN.decode(raw).metadata.managed_fields
            return FullNode(Decoder(keep_every).node(_reader(raw)), last_write(managed))
        except (*UNREADABLE, ValueError) as error:
            raise UnreachableError(
                f"the answer to GET {NODES}/{name} is not a Node: {error}"
            ) from error

    def published(self) -> Snapshot:
        """What schedulers read, with a warning for each kind that cannot be read.

        Raises KubeError.
        """
        return load_published(self._client, self._client.server)

    def required(self) -> RequiredLevels:
        """What PodGangs and PodGroups require, with a warning where that cannot be read."""
        required = RequiredLevels()
        try:
            required.read(self._client)
        except KubeError as error:
            required.warnings.append(
                f"levels that only PodGangs and PodGroups require are unknown: {error}"
            )
        return required


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
    topology = topology_of(msgspec.json.decode(raw))
    return topology.name, _OBJECT.decode(raw).metadata.resource_version, topology


def _reader(raw: Raw) -> Callable[[type[Any]], Any]:
    return lambda kind: msgspec.json.decode(raw, type=kind)


class _RenewedDecoder:
    """A decoder that is replaced now and then. For one thread."""

    def __init__(self) -> None:
        self._count = 0
        self._decoder = Decoder(keep_every)

    def get(self) -> Decoder:
        self._count += 1
        if not self._count % _MAX_DECODED:
            self._decoder = Decoder(keep_every)
        return self._decoder


@dataclass(frozen=True, slots=True)
class _Handler:
    """Puts one collection into the facts: its reflector's handler and observer."""

    facts: Facts
    collection: str
    replace_all: Callable[[Mapping[str, Any]], None]
    put: Callable[[str, Any], None]
    gone: Callable[[str], None]
    forget: Callable[[], None] = lambda: None
    """Called where the collection cannot be read or does not exist."""

    def replace(self, items: Mapping[str, Any]) -> None:
        self.replace_all(items)
        self.facts.mark_synced(self.collection)

    def listed(self, path: str, reason: str) -> None:
        """Ignored: the page does not count lists."""

    def heard(self, path: str) -> None:  # noqa: ARG002 - the protocol's
        self.facts.mark_alive(self.collection)

    def ended(self, path: str) -> None:
        """Ignored: a stream that ends is reopened."""

    def failing(self, error: KubeError | None) -> None:
        """The collection cannot be read right now; the page works without some of them."""
        status = error.status if isinstance(error, ApiError) else None
        if error is None:
            self.facts.warn(self.collection, "")
            self.facts.mark_synced(self.collection)
        # no CRD: no controller has been here
        elif status == HTTPStatus.NOT_FOUND and self.collection == _TOPOLOGIES:
            self._do_without("")
        elif status == HTTPStatus.FORBIDDEN and self.collection in _WITHOUT:
            self._do_without(f"{_WITHOUT[self.collection]} ({error})")
        else:
            self.facts.mark_failing(self.collection, str(error))

    def _do_without(self, warning: str) -> None:
        self.facts.warn(self.collection, warning)
        self.forget()
        self.facts.mark_synced(self.collection)
