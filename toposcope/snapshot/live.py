"""A snapshot of a live cluster: paged lists, typed decoding, a warning per missing right."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

import msgspec

from toposcope.api.cluster_topology import API_VERSION, PATH, Topology
from toposcope.integrations.dra import api as dra
from toposcope.integrations.dra.compute_domains import COMPUTE_DOMAIN, DRIVER
from toposcope.integrations.framework.plugin import Plugin
from toposcope.integrations.framework.pod_kinds import POD_KINDS
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.registry import DECISIVE, PUBLISHED
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.kube.listing import UNREADABLE, once_more
from toposcope.kube.pages import pages
from toposcope.kube.pod_resources import gpu_count
from toposcope.kube.requests import NODES
from toposcope.snapshot import decode
from toposcope.snapshot.documents import decoder
from toposcope.snapshot.kinds import CONFIGURED, configuration_key, keepers
from toposcope.snapshot.model import NodeView, PodView, PublishedTopology, Snapshot, with_devices
from toposcope.snapshot.problems import Progress, silent


class ForbiddenError(KubeError):
    """Listing nodes is forbidden; `topologies` is what was read before."""

    def __init__(self, message: str, topologies: tuple[Topology, ...]) -> None:
        super().__init__(message)
        self.topologies = topologies


def forbidden(resource: str, consequence: str, error: ApiError, where: str = "") -> str:
    """The message about a forbidden list: the missing right, its consequence, what to ask for."""
    return (
        f"these credentials cannot list {resource}, so {consequence}; "
        f"ask an admin for a ClusterRole with the verb list on {resource}{where} "
        f"(the API server: {error.message})"
    )


PODS: Final = "/api/v1/pods"
CONFIG_MAPS: Final = "/api/v1/configmaps"
_UNFINISHED: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
NOTHING_ASKED: Final[Mapping[str, str]] = {}

_T = TypeVar("_T")


class _Meta(msgspec.Struct, frozen=True, gc=False):
    # `continue` is a keyword of Python.
    token: str = msgspec.field(name="continue", default="")
    left: int | None = msgspec.field(name="remainingItemCount", default=None)
    """After this page; the server omits it for lists with a field or label selector."""


class _Page(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    items: list[msgspec.Raw]


_PAGES: Final = msgspec.json.Decoder(_Page)


@dataclass(frozen=True, slots=True)
class WantedParts:
    """The parts of a cluster to read besides nodes and ClusterTopologies."""

    has_pods: bool = True
    has_published: bool = False
    node: str | None = None
    """The only node to read, with its pods and devices."""
    keep_matrix: decode.KeepMatrix = field(default=decode.keep_degraded)
    on_topologies: Callable[[tuple[Topology, ...]], None] | None = None
    """Called with the ClusterTopologies before the nodes are read: they are few, nodes many."""
    has_neighbours: bool = False
    """Whether to read all other nodes too, which say what levels there are."""


def load_live(
    client: ApiClient,
    source: str,
    now: datetime,
    wanted: WantedParts = WantedParts(),
    progress: Progress = silent,
) -> Snapshot:
    """The cluster as of `now`.

    Raises KubeError if its nodes cannot be read; other failures become warnings.
    """
    return _Reader(client, progress, wanted.keep_matrix).snapshot(source, now, wanted)


def load_published(client: ApiClient, source: str) -> Snapshot:
    """Only what schedulers read, with a warning for each kind that these credentials can't list.

    Raises KubeError.
    """
    reader = _Reader(client, silent, decode.keep_degraded)
    published = reader.published()
    objects = (*reader.objects(), *reader.configurations())
    return Snapshot(
        source=source,
        taken_at=None,
        nodes=(),
        pods=None,
        published=published,
        served=reader.served,
        objects=objects,
        warnings=tuple(reader.warnings),
        scheduler_profiles=reader.scheduler_profiles(),
    )


def load_topologies(client: ApiClient, source: str, now: datetime) -> Snapshot:
    """Only the ClusterTopologies: one small request. Raises KubeError."""
    reader = _Reader(client, silent, decode.keep_degraded)
    topologies = reader.topologies()
    return Snapshot(
        source=source,
        taken_at=now,
        nodes=(),
        pods=None,
        topologies=topologies,
        warnings=tuple(reader.warnings),
    )


class _Reader:
    def __init__(
        self, client: ApiClient, progress: Progress, keep_matrix: decode.KeepMatrix
    ) -> None:
        self._client = client
        self._progress = progress
        self._decode = decode.Decoder(keep_matrix)
        self.warnings: list[str] = []
        self.served: dict[str, bool] = {}

    def snapshot(self, source: str, now: datetime, wanted: WantedParts) -> Snapshot:
        with decode.paused_gc():
            topologies = self.topologies()
            if wanted.on_topologies:
                wanted.on_topologies(topologies)

            only = None if wanted.has_neighbours else wanted.node
            nodes = self._nodes(only, topologies)
            devices: tuple[Mapping[str, Any], ...] = ()
            pods = None
            if wanted.has_pods:
                inspected = nodes
                if wanted.node:
                    inspected = [node for node in nodes if node.name == wanted.node]
                devices = self.devices(inspected, wanted.node, claims=wanted.has_published)
                pods = self._pods(wanted.node)

            published: tuple[PublishedTopology, ...] = ()
            objects: tuple[Mapping[str, Any], ...] = ()
            if wanted.has_published:
                published = self.published()
                objects = (*self.objects(), *self.configurations())

            profiles = self.scheduler_profiles()
            snapshot = Snapshot(
                source=source,
                taken_at=now,
                nodes=tuple(sorted(nodes, key=attrgetter("name"))),
                topologies=topologies,
                pods=pods,
                unready_agents=self._decode.unready_agents,
                published=published,
                objects=(*objects, *devices),
                served=self.served,
                scheduler_profiles=profiles,
                warnings=(*self.warnings, *self._decode.warnings()),
            )
            return with_devices(snapshot)

    def _nodes(self, name: str | None, topologies: tuple[Topology, ...]) -> list[NodeView]:
        query = {"fieldSelector": f"metadata.name={name}"} if name else {}
        try:
            return self._list("nodes", NODES, query, lambda raw: self._decode.node(_reader(raw)))
        except ApiError as error:
            if not error.is_forbidden:
                raise
            message = forbidden("nodes", "there is nothing to show", error)
            raise ForbiddenError(message, topologies) from error

    def _pods(self, node: str | None) -> tuple[PodView, ...] | None:
        query = dict(_UNFINISHED)
        if node:
            query["fieldSelector"] += f",spec.nodeName={node}"
        try:
            pods = self._list("pods", PODS, query, lambda raw: self._decode.pod(_reader(raw)))
        except ApiError as error:
            if not error.is_forbidden:
                raise
            self.warnings.append(
                forbidden("pods", "free GPUs are unknown", error, " in all namespaces")
            )
            return None

        unfinished = filter(None, pods)
        return tuple(unfinished)

    def topologies(self) -> tuple[Topology, ...]:
        """The ClusterTopologies."""
        try:
            topologies = self._list(
                "ClusterTopologies", PATH, {}, lambda raw: decode.topology_of(_reader(raw)(dict))
            )
        except ApiError as error:
            if error.is_not_found:
                return ()
            if not error.is_forbidden:
                raise
            group, _, _ = API_VERSION.partition("/")
            resource = f"clustertopologies.{group}"
            self.warnings.append(forbidden(resource, "levels come from node labels alone", error))
            return ()

        topologies.sort(key=attrgetter("name"))
        return tuple(topologies)

    def published(self) -> tuple[PublishedTopology, ...]:
        """The topology resources of all schedulers."""
        resources: list[PublishedTopology] = []
        for kind in PUBLISHED:
            refused: dict[str, ApiError] = {}
            resources += self._served(kind, partial(_published, kind.kind), refused)
            self._warn(refused, "what its scheduler reads is unknown")
        return tuple(resources)

    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """Other objects that decide what schedulers admit."""
        objects = []
        refused: dict[str, ApiError] = {}
        refused_of_pods: dict[str, ApiError] = {}
        for kind in DECISIVE:
            keep = keepers()[kind.key]
            where = refused_of_pods if kind in POD_KINDS else refused
            for document in self._served(kind, partial(_read_as, kind.kind), where):
                kept = keep(document)
                if kept is not None:
                    objects.append(kept)

        self._warn(refused_of_pods, "how they change or reject pods is unknown")
        self._warn(refused, "queues, quota and PodGroups are unknown")
        return tuple(objects)

    def devices(
        self, nodes: Sequence[NodeView], node: str | None, *, claims: bool = False
    ) -> tuple[Mapping[str, Any], ...]:
        """ResourceSlices (of one node where it is named) and resource claims.

        `claims` adds the objects that say which devices a claim asks for. A missing right is a
        warning where one of the nodes has GPUs and no device plugin.
        """
        kinds: tuple[Kind, ...] = dra.READ
        if claims:
            kinds += dra.ASKED

        refused: dict[str, ApiError] = {}
        devices: list[Mapping[str, Any]] = []
        for kind in kinds:
            query = NOTHING_ASKED
            if node and kind is dra.SLICE:
                query = {"fieldSelector": f"spec.nodeName={node}"}
            read = partial(_read_as, kind.kind)
            objects = self._served(kind, read, refused, query)
            devices += map(dra.kept, objects)
            if kind is dra.SLICE and not devices:
                break

        self._warn_of_devices(refused, devices, nodes)
        return tuple(devices)

    def _warn_of_devices(
        self,
        refused: dict[str, ApiError],
        devices: Sequence[Mapping[str, Any]],
        nodes: Sequence[NodeView],
    ) -> None:
        unread = refused.pop(COMPUTE_DOMAIN.name, None)
        drivers = (device["spec"].get("driver") for device in devices)
        if unread and DRIVER in drivers:
            self._warn(
                {COMPUTE_DOMAIN.name: unread}, "which ComputeDomains nodes are in is unknown"
            )

        for node in nodes:
            if node.has_gpus and not gpu_count(node.allocatable):
                self._warn(
                    refused, "devices that drivers offer by resource claims (DRA) are not counted"
                )
                return

    def _warn(self, refused: Mapping[str, ApiError], without: str) -> None:
        """Add one warning for all kinds that these credentials can't list."""
        if not refused:
            return
        error = next(iter(refused.values()))
        self.warnings.append(forbidden(", ".join(refused), without, error))

    def _served(
        self,
        kind: Kind,
        read: Callable[[str, msgspec.Raw], _T],
        refused: dict[str, ApiError],
        query: Mapping[str, str] = NOTHING_ASKED,
    ) -> Iterator[_T]:
        """All objects of a kind in the preferred version that is served."""
        for version in kind.versions:
            read_item = partial(read, kind.api_version(version))
            try:
                yield from self._list(kind.name, kind.path(version), query, read_item)
                self.served[kind.name] = True
                break
            except ApiError as error:
                if error.is_forbidden:
                    self.served.pop(kind.name, None)
                    refused[kind.name] = error
                    break
                if not error.is_not_found:
                    raise
                self.served[kind.name] = False

    def scheduler_profiles(self) -> SchedulerProfiles | None:
        """The configuration of an operator, if it is installed and its ConfigMap may be read."""
        configurations: list[SchedulerProfiles | None] = []
        for plugin in self._configured():
            if configuration_key(plugin) is None:
                configurations += self._config_maps(plugin, partial(decode.profiles, [plugin]))
        return decode.only(configurations)

    def configurations(self) -> Iterator[Mapping[str, Any]]:
        """The configurations of operators that decide about places, where they may be read."""
        for plugin in self._configured():
            key = configuration_key(plugin)
            if key is None:
                continue
            keep = keepers()[key]
            read = partial(decode.configured_objects, [key])
            for objects in self._config_maps(plugin, read):
                for configuration in objects:
                    kept = keep(configuration)
                    if kept is not None:
                        yield kept

    def _configured(self) -> Iterator[Plugin]:
        """The systems that the cluster serves, and whose operator has a configuration."""
        for plugin in CONFIGURED:
            if any(self.served.get(kind.name) for kind in plugin.published):
                yield plugin

    def _config_maps(
        self, plugin: Plugin, read: Callable[[Callable[[type[Any]], Any]], _T]
    ) -> list[_T]:
        """What is in the ConfigMaps of an operator; nothing where they may not be read."""
        selector = plugin.configuration.label_selector if plugin.configuration else ""
        query = {"labelSelector": selector}
        try:
            return self._list(
                "ConfigMaps",
                CONFIG_MAPS,
                query,
                lambda raw: read(_reader(raw)),
            )
        except ApiError as error:
            if not error.is_forbidden and not error.is_not_found:
                raise
            return []

    def _list(
        self, what: str, path: str, query: Mapping[str, str], read: Callable[[msgspec.Raw], _T]
    ) -> list[_T]:
        """All objects of a collection; starts again if its page tokens expire. Raises KubeError."""
        self._progress(what, 0)
        return once_more(lambda: self._pages(what, path, query, read))

    def _pages(
        self, what: str, path: str, query: Mapping[str, str], read: Callable[[msgspec.Raw], _T]
    ) -> list[_T]:
        items: list[_T] = []

        def read_page(request: Request) -> _Page:
            body = self._client.read(request)
            try:
                page = _PAGES.decode(body)
                items.extend(map(read, page.items))
            except (*UNREADABLE, ValueError) as error:
                raise UnreachableError(
                    f"the answer to GET {path} is not a list of {what}: {error}"
                ) from error
            return page

        request = Request("GET", path, query)
        for page in pages(request, read_page, lambda page: page.metadata.token):
            count = len(items)
            self._progress(what, count, _share(count, page.metadata.left))
        return items


def _share(count: int, remaining: int | None) -> float | None:
    """The share of a list that has been read; None: not known."""
    if remaining is None:
        return None
    return count / max(1, count + remaining)


def _published(kind: str, version: str, raw: msgspec.Raw) -> PublishedTopology:
    return decode.published(version, kind, _reader(raw))


def _read_as(kind: str, version: str, raw: msgspec.Raw) -> dict[str, Any]:
    """An item of a list as the object that it would be alone."""
    return {**_reader(raw)(dict), "apiVersion": version, "kind": kind}


def _reader(raw: msgspec.Raw) -> Callable[[type[Any]], Any]:
    def read(kind: type[Any]) -> Any:
        return decoder(cast("Hashable", kind)).decode(raw)

    return read
