"""Notices within moments what others changed on the Node.

That is keys of ours, its neighbours, and what the plan depends on.

It only says so; the loop reads the Node and writes. Without a watch the loop finds out when it
reads the Node next.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.owners import OwnedKeys
from toposcope.api.label_keys import SWITCHES
from toposcope.kube.client import METADATA, ApiClient
from toposcope.kube.object_watch import ObjectWatch, Watched
from toposcope.kube.requests import NODES
from toposcope.kube.runtime import REAL, Runtime


class Keys(Protocol):
    """What is watched on the Node; called from the watch's thread."""

    def owned(self, metadata: Mapping[str, Any]) -> OwnedKeys:
        """The labels and annotations of ours."""

    def differs(self, keys: OwnedKeys) -> bool:
        """Whether they are not as they should be, as far as is known."""

    def inputs(self, metadata: Mapping[str, Any]) -> Hashable:
        """What else decides about keys of ours."""


class NodeWatch:
    """Calls `changed` when keys of ours change and are not as they should be.

    It also does when what they depend on changes, and when the NICs have other neighbours. Calls
    `seen` with the Node's metadata whenever that comes.
    """

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        keys: Keys,
        metrics: AgentMetrics,
        changed: Callable[[], object],
        *,
        on_metadata: Callable[[Mapping[str, Any]], object] | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._on_metadata = on_metadata
        self._keys = keys
        self._metrics = metrics
        self._changed = changed
        self._last_keys: OwnedKeys | None = None
        self._inputs: Hashable = None
        node = Watched(
            path=NODES,
            name=node_name,
            handle=f"node {node_name}",
            without="changes by others are found within 12 minutes",
            accept=METADATA,
        )
        self._watch = ObjectWatch(client, node, self._take, self._watching, runtime=runtime)

    def start(self) -> None:
        """Watch in a thread that ends with the process."""
        self._watch.start()

    def run(self) -> None:
        """Watch for ever. Never raises a KubeError."""
        self._watch.run()

    def _watching(self, is_watching: bool) -> None:
        self._metrics.is_watching = is_watching

    def _take(self, node: Mapping[str, Any]) -> None:
        metadata = node["metadata"]
        if self._on_metadata:
            self._on_metadata(metadata)
        annotations = metadata.get("annotations") or {}
        switches = annotations.get(SWITCHES)
        keys = self._keys.owned(metadata)
        inputs = (switches, self._keys.inputs(metadata))
        keys_before, self._last_keys = self._last_keys, keys
        inputs_before, self._inputs = self._inputs, inputs

        has_other_inputs = keys_before is not None and inputs != inputs_before
        has_other_keys = keys != keys_before
        if has_other_inputs or (has_other_keys and self._keys.differs(keys)):
            self._changed()
