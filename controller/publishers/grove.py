"""Grove's `ClusterTopologyBinding` (grove.io/v1alpha1, Grove v0.1.0-alpha.9 and later).

Grove's operator reads every binding when it starts and exits on the first bad one, long after the write, so levels
are checked against everything that Grove, KAI and Kueue refuse before anything is written. The older
`ClusterTopology` is not written: Grove overwrites it from its own configuration.
"""

from collections.abc import Sequence
from typing import Final

from controller.publishers.target import MANAGER, Published, is_ours, owned_metadata
from controller.spec import Topology
from kube.apply import apply, get
from kube.client import ApiClient
from kube.errors import ApiError
from topology.levels import Level, level_problems

API_VERSION: Final = "grove.io/v1alpha1"
KIND: Final = "ClusterTopologyBinding"
_PLURAL: Final = "clustertopologybindings"
_SERVER_ERROR: Final = 500
_UNTYPED: Final = "failed to create typed patch"


class GrovePublisher:
    """Keeps the binding named like its ClusterTopology equal to it."""

    name = "grove"

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def served(self) -> bool:
        """Whether the API server serves the kind just now. Raises KubeError.

        Asked of discovery and not of the CRD: next to Grove's older CRD the binding's is there but not served, because
        both claim the short name `ct`.
        """
        try:
            resources = self._client.call(get(f"/apis/{API_VERSION}"))["resources"]
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return any(resource["name"] == _PLURAL for resource in resources)

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the binding say `levels`. Raises Unreachable, and ApiError where trying again can help."""
        problems = level_problems(levels)
        if problems:
            return self._refused("Rejected", "; ".join(problems), topology)
        path = f"/apis/{API_VERSION}/{_PLURAL}/{topology.name}"
        try:
            there = self._client.call(get(path))
        except ApiError as error:
            if not error.not_found:
                raise
            there = None
        if there is not None and not is_ours(there, topology):
            text = (
                f"a {KIND} named {topology.name} exists and was not made by Toposcope; "
                "delete it, or give the ClusterTopology another name, or set spec.publish.grove to Never"
            )
            return self._refused("Conflict", text, topology)
        wanted = [{"domain": level.domain, "key": level.key} for level in levels]
        if there is None or (there.get("spec") or {}).get("levels") != wanted:
            body = {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": owned_metadata(topology),
                "spec": {"levels": wanted},
            }
            try:
                # Force only on what is ours: an object that somebody made since we looked is theirs.
                self._client.call(apply(path, body, MANAGER, force=there is not None))
            except ApiError as error:
                if error.status >= _SERVER_ERROR and _UNTYPED not in error.message:
                    raise
                return self._refused("Conflict" if error.conflict else "Rejected", error.message, topology)
        return Published(API_VERSION, KIND, topology.name)

    def _refused(self, reason: str, message: str, topology: Topology) -> Published:
        return Published(API_VERSION, KIND, topology.name, reason, message[:1024])
