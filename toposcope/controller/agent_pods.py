"""Why the agents' DaemonSet has no pods, from its status and the DaemonSet controller's Events.

Without a pod there is no log to read: a missing RuntimeClass, an exhausted quota and Pod Security show here only.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from toposcope.api.cluster_topology import HOME_NAMESPACE
from toposcope.api.conditions import AGENTS_REPORTING, Condition
from toposcope.controller.assess.assessment import IS_IT_RUNNING
from toposcope.kube.client import Caller, Request, find
from toposcope.kube.errors import KubeError
from toposcope.topology.text import printable

_NAME: Final = "toposcope-agent"
_DAEMON_SET: Final = f"/apis/apps/v1/namespaces/{HOME_NAMESPACE}/daemonsets/{_NAME}"
_EVENTS: Final = f"/api/v1/namespaces/{HOME_NAMESPACE}/events"
_SECONDS: Final = 15.0
"""How long an answer is used: passes can be a second apart."""


class AgentPods:
    """Reads only while nodes lack labels. `monotonic` tells seconds."""

    def __init__(self, client: Caller, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._until = -math.inf
        self._refused = self._counts = ""

    def explained(self, condition: Condition) -> Condition:
        """An `AgentsReporting` about nodes without labels with the cause, where it can be read; others as they are."""
        if condition.type != AGENTS_REPORTING or not condition.message.endswith(IS_IT_RUNNING):
            return condition
        if self._monotonic() >= self._until:
            self._read()
            self._until = self._monotonic() + _SECONDS
        nodes = condition.message.removesuffix(IS_IT_RUNNING)
        if self._refused:
            text = f"{nodes}the agent's DaemonSet cannot create pods: {self._refused}"
            return replace(condition, reason="AgentPodsNotCreated", message=text)
        return replace(condition, message=nodes + self._counts) if self._counts else condition

    def _read(self) -> None:
        self._refused = self._counts = ""
        try:
            daemon_set = find(self._client, _DAEMON_SET) or {}
            status = daemon_set.get("status") or {}
            current, desired = status.get("currentNumberScheduled", 0), status.get("desiredNumberScheduled", 0)
            if current >= desired:
                return
            see = f"see `kubectl -n {HOME_NAMESPACE} describe daemonset {_NAME}`"
            self._counts = f"the agent's DaemonSet has pods on {current} of {desired} nodes: {see}"
            about = f"reason=FailedCreate,involvedObject.uid={daemon_set['metadata']['uid']}"
            events = self._client.call(Request("GET", _EVENTS, {"fieldSelector": about})).get("items")
        except KubeError:
            return  # a right that an older role lacks: the condition says what is known without it
        if events:
            message = max(events, key=lambda event: event.get("lastTimestamp") or "")["message"]
            # Before it stands the pod's name, which may differ with every attempt.
            self._refused = printable(message.removeprefix("Error creating: ").rpartition(" is forbidden: ")[2], 500)
