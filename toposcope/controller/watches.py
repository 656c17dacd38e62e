"""What the controller watches.

ClusterTopologies, nodes, workloads, and the resources that it publishes.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from toposcope.api import cluster_topology
from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import GPU_PRESENT, GPU_PRODUCT, GPUS
from toposcope.controller.agent_watch import AgentWatch
from toposcope.controller.config_file import ConfigFile
from toposcope.controller.informer import Cache, InformerFactory
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.options import ControllerOptions
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.requirements import Requirements
from toposcope.controller.resource_discovery import ResourceDiscovery
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.kube.reflector import Raw, Reflector
from toposcope.kube.requests import NODES

_CONFIG_SECONDS: Final = 60.0
"""How often the configuration file is looked at."""
_TRACKED: Final = BUILT_IN.tracked | {GPUS, GPU_PRESENT, GPU_PRODUCT}


def decode_topology(raw: Raw) -> tuple[str, str, Topology]:
    """Name, resourceVersion and topology.

    Raises msgspec.ValidationError for what the CRD would have refused.
    """
    document = msgspec.json.decode(raw, type=dict)
    try:
        topology = cluster_topology.read(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        kind = type(error).__name__
        raise msgspec.ValidationError(f"{kind}: {error}") from error
    metadata = document["metadata"]
    return topology.name, metadata.get("resourceVersion", ""), topology


def _has_same_spec(before: Topology, after: Topology) -> bool:
    return (before.uid, before.generation) == (after.uid, after.generation)


class Watches:
    """Caches of everything that the controller goes by; `changed` is called from their threads."""

    def __init__(
        self,
        informers: InformerFactory,
        changed: Callable[[], None],
        options: ControllerOptions,
        metrics: ControllerMetrics,
        published: CachedReader | None,
    ) -> None:
        self._informers = informers
        self._runtime = informers.runtime
        self._metrics = metrics
        # The echo of our own status write must not trigger a pass; a status that others write waits
        # for the resync.
        self.topologies: Cache[Topology] = Cache(changed, _has_same_spec)
        self.nodes: Cache[NodeFacts] = Cache(changed)
        self.agents = AgentWatch(informers, changed)
        self.workloads = Requirements(informers, changed)
        self.discovery = ResourceDiscovery(informers, self.workloads, published, changed)
        self._decoder = NodeDecoder(_TRACKED)
        self.topology_reflector = informers.reflector(
            cluster_topology.PATH, decode_topology, self.topologies
        )
        self.node_reflector = informers.reflector(NODES, self._decoder, self.nodes)
        self._table = Table(())
        self._table_version = -1
        self._config = ConfigFile(Path(options.config)) if options.config else None
        self._config_read_at = -math.inf

    def list_once(self) -> None:
        """List everything once, without a watch. Raises KubeError."""
        self.topology_reflector.sync()
        self.track_labels()
        self.node_reflector.sync()
        self.agents.list_once()
        self.workloads.sync()

    def start_topologies(self) -> None:
        """Watch the ClusterTopologies, which name the labels to be kept of each node."""
        self._runtime.thread("topologies", self.topology_reflector.run)

    def start_others(self) -> None:
        """Watch everything else."""
        self.track_labels()
        self._runtime.thread("nodes", self.node_reflector.run)
        self.agents.start()
        self.discovery.start()

    def close(self) -> None:
        """Stop all watches."""
        for reflector in (self.topology_reflector, self.node_reflector):
            reflector.relist()  # nothing else ends a silent stream
        self.agents.end()
        self.discovery.close()

    def track_labels(self) -> bool:
        """Keep every label that a spec or the configuration names.

        Whether nodes must be listed again for that.
        """
        self._read_config()
        keys = set(self.catalogue.tracked)
        for topology in self.topologies.items():
            keys.update(topology.label_keys())
        return self._decoder.track(keys)

    def list_nodes_again(self) -> None:
        """More is kept of each node from now on."""
        self.nodes.mark_unsynced()
        self.node_reflector.relist()

    def has_current_topologies(self) -> bool:
        """Whether the watch of ClusterTopologies, which may lag, shows what a list shows.

        Raises KubeError.
        """
        listed: Cache[Topology] = Cache(_ignore)
        reflector = Reflector(
            self._informers.client,
            cluster_topology.PATH,
            decode_topology,
            listed,
            self._informers.stop,
            runtime=self._runtime,
        )
        reflector.sync()
        return _by_uid(listed) == _by_uid(self.topologies)

    @property
    def catalogue(self) -> Catalogue:
        """The built-in catalogue, with the additions of the configuration file."""
        return self._config.catalogue if self._config else BUILT_IN

    def node_table(self) -> Table:
        """All nodes; the table of the last pass if no node has changed since."""
        version = self.nodes.version
        placeholders = self.catalogue.placeholders
        if version != self._table_version or placeholders != self._table.placeholders:
            nodes = self.nodes.by_name()
            self._table = Table(nodes, placeholders)
            self._table_version = version
        self._metrics.nodes.set(len(self._table))
        return self._table

    def missing(self) -> str:
        """What has not been listed yet; empty if all has."""
        for name, cache in (("ClusterTopologies", self.topologies), ("nodes", self.nodes)):
            if cache.is_synced:
                continue
            text = f"{name} have not been listed yet"
            return f"{text}: {cache.error}" if cache.error else text
        return ""

    def _read_config(self) -> None:
        """Check once a minute whether the configuration file has changed."""
        if self._config is None:
            return
        now = self._runtime.monotonic()
        if now - self._config_read_at < _CONFIG_SECONDS:
            return
        self._config_read_at = now
        self._config.look()
        problems = self._config.problems
        self._metrics.config_problems.set(len(problems))


def _ignore() -> None:
    """A cache that no pass waits for."""


def _by_uid(cache: Cache[Topology]) -> dict[str, Topology]:
    return {topology.uid: topology for topology in cache.items()}
