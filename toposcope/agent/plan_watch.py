"""Follows the controller's plan.

It is the ConfigMap that says which labels and annotation belong on which Node.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from toposcope.integrations.node_plan import CONFIG_MAP, FIELD, NodePlan, decode
from toposcope.kube.client import ApiClient, find
from toposcope.kube.object_watch import ObjectWatch, Watched
from toposcope.kube.runtime import REAL, Runtime

log = logging.getLogger("agent")


class PlanWatch:
    """Calls `changed` with each new plan.

    What cannot be read, or is deleted, is no plan: the last one stays known.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        changed: Callable[[NodePlan], object],
        *,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._changed = changed
        self._text = ""
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._handle = f"ConfigMap {namespace}/{CONFIG_MAP}"
        plan = Watched(
            path=self._path,
            name=CONFIG_MAP,
            handle=self._handle,
            without="labels and annotations that ClusterTopologies ask for stay unchanged",
        )
        self._watch = ObjectWatch(client, plan, self._take, runtime=runtime)

    def start(self) -> None:
        """Watch in a thread that ends with the process."""
        self._watch.start()

    def run(self) -> None:
        """Watch for ever. Never raises a KubeError."""
        self._watch.run()

    def read(self) -> None:
        """Read the plan once. Raises KubeError."""
        found = find(self._client, f"{self._path}/{CONFIG_MAP}")
        if found is not None:
            self._take(found)

    def _take(self, config_map: Mapping[str, Any]) -> None:
        text = (config_map.get("data") or {}).get(FIELD)
        if text == self._text or not isinstance(text, str):
            return
        self._text = text
        try:
            plan = decode(text)
        except ValueError as error:
            log.warning(
                "%s holds no valid plan, so labels and annotations stay unchanged: %s",
                self._handle,
                error,
            )
            return
        self._changed(plan)
