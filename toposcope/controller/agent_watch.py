"""Which agents are not Ready: a watch of their pods, in the controller's own namespace.

The labels of a Node stay when its agent crashes, so that the Nodes do not show it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.assess.agents import UnreadyAgent
from toposcope.controller.informer import Cache, Informer, InformerFactory
from toposcope.kube.agent_pod import SELECTOR, AgentPod, read
from toposcope.kube.config import pod_namespace
from toposcope.kube.errors import ApiError, KubeError

_START_SECONDS: Final = 60.0
"""How long a pod may be about to start: a roll-out replaces one in some twenty seconds."""
_SETTLED_SECONDS: Final = 120.0
"""How long a pod that was reported must have been Ready: one that crashes again and again is Ready
for a moment in between."""


class AgentWatch:
    """Follows the pods of the agents, and keeps those that are not Ready or were reported.

    `changed` is called when a pod begins or ceases to fail. All others wait for the next pass, or
    a roll-out would ask for a pass for each node.
    """

    def __init__(
        self, informers: InformerFactory, changed: Callable[[], None], namespace: str = ""
    ) -> None:
        self.namespace = namespace or pod_namespace() or HOME_NAMESPACE
        self._changed = changed
        self._runtime = informers.runtime
        self._reported: set[str] = set()
        """The pods of the last report, by name."""
        self._cache: Cache[AgentPod] = Cache(_ignore)
        self._informer = Informer(
            informers,
            f"/api/v1/namespaces/{self.namespace}/pods",
            name="agents",
            decode=read,
            cache=self._cache,
            handler=self,
            selector=SELECTOR,
        )

    def start(self) -> None:
        """Begin to watch."""
        self._informer.start()

    def list_once(self) -> None:
        """List the pods without a watch; a refusal leaves them unknown.

        Raises KubeError if the server does not answer.
        """
        try:
            self._informer.sync()
        except ApiError as error:
            self.failing(error)

    def end(self) -> None:
        """Stop watching."""
        self._informer.end()

    def unready(self) -> Sequence[UnreadyAgent] | None:
        """The agents that are not Ready, by node; None while that is not known.

        A role from before this watch does not grant it: then nothing is said.
        """
        if not self._cache.is_synced:
            error = self._cache.error
            return () if isinstance(error, ApiError) and error.is_forbidden else None

        now = self._runtime.now()
        reported = {}
        for name, pod in self._cache.by_name().items():
            if self._is_unready(pod, now):
                reported[name] = UnreadyAgent(pod.node or pod.name, pod.reason or "restarting")
        self._reported = set(reported)
        return sorted(reported.values())

    def _is_unready(self, pod: AgentPod, now: datetime) -> bool:
        age = now - pod.since
        seconds = age.total_seconds()
        if pod.is_ready:
            return pod.name in self._reported and seconds < _SETTLED_SECONDS
        return pod.is_failing or seconds >= _START_SECONDS

    def replace(self, items: Mapping[str, AgentPod]) -> None:
        """As in `Handler`; called from the watch's thread."""
        kept = {}
        for name, pod in items.items():
            if self._is_kept(pod):
                kept[name] = pod
        self._cache.replace(kept)
        self._changed()

    def put(self, name: str, item: AgentPod) -> None:
        """As in `Handler`."""
        failed_before = self._is_failing(name)
        if self._is_kept(item):
            self._cache.put(name, item)
        else:
            self._cache.gone(name)
        if failed_before != item.is_failing:
            self._changed()

    def gone(self, name: str) -> None:
        """As in `Handler`."""
        failed_before = self._is_failing(name)
        self._cache.gone(name)
        if failed_before:
            self._changed()

    def failing(self, error: KubeError | None) -> None:
        """As in `Handler`."""
        self._cache.failing(error)

    def _is_kept(self, pod: AgentPod) -> bool:
        """Whether a report may be about it: of most nodes, nothing is kept."""
        return not pod.is_ready or pod.name in self._reported

    def _is_failing(self, name: str) -> bool:
        pod = self._cache.get(name)
        return pod is not None and pod.is_failing


def _ignore() -> None:
    """`AgentWatch` decides itself what is a change."""
