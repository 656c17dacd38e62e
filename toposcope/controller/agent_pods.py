"""Why the agents' DaemonSet has no pods, from its status and the DaemonSet controller's Events.

Without a pod there is no log to read: a missing RuntimeClass, an exhausted quota and Pod Security
show here only.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from toposcope.api.conditions import AGENTS_REPORTING, Condition
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.assess.assessment import IS_IT_RUNNING
from toposcope.kube.client import Caller, Request
from toposcope.kube.config import pod_namespace
from toposcope.kube.errors import KubeError
from toposcope.kube.listing import everything
from toposcope.text import printable

_COMPONENT: Final = "app.kubernetes.io/name=toposcope,app.kubernetes.io/component=agent"
"""Overlays rename objects (`namePrefix`), and keep labels."""
_SECONDS: Final = 15.0
"""How long an answer is used: passes can be a second apart."""


class AgentPods:
    """Reads the DaemonSet of the namespace that the controller runs in.

    `monotonic` tells seconds.
    """

    def __init__(self, client: Caller, monotonic: Callable[[], float], namespace: str = "") -> None:
        self._client = client
        self._monotonic = monotonic
        self._namespace = namespace or pod_namespace() or HOME_NAMESPACE
        self._until = -math.inf
        self._refused = self._counts = ""

    def explained(self, condition: Condition) -> Condition:
        """An `AgentsReporting` with why agents have no pods, where it can be read; others as they are.

        It turns False also where all nodes have labels, if these are left of pods that are gone.
        """
        if condition.type != AGENTS_REPORTING:
            return condition
        if self._monotonic() >= self._until:
            self._read()
            self._until = self._monotonic() + _SECONDS
        silent = condition.message.endswith(IS_IT_RUNNING)
        nodes = condition.message.removesuffix(IS_IT_RUNNING) if silent else "labels may be old; "
        if self._refused and (silent or condition.status == "True"):
            text = f"{nodes}the agent's DaemonSet cannot create pods: {self._refused}"
            return replace(condition, status="False", reason="AgentPodsNotCreated", message=text)
        return (
            replace(condition, message=nodes + self._counts)
            if silent and self._counts
            else condition
        )

    def _read(self) -> None:
        self._refused = self._counts = ""
        apps, core = (
            f"{root}/namespaces/{self._namespace}" for root in ("/apis/apps/v1", "/api/v1")
        )
        try:
            for daemon_set in everything(self._client, f"{apps}/daemonsets", selector=_COMPONENT):
                status, metadata = daemon_set.get("status") or {}, daemon_set["metadata"]
                current, desired = (
                    status.get("currentNumberScheduled", 0),
                    status.get("desiredNumberScheduled", 0),
                )
                if current >= desired:
                    continue
                see = f"see `kubectl -n {self._namespace} describe daemonset {metadata['name']}`"
                self._counts = (
                    f"the agent's DaemonSet has pods on {current} of {desired} nodes: {see}"
                )
                about = f"reason=FailedCreate,involvedObject.uid={metadata['uid']}"
                events = self._client.call(
                    Request("GET", f"{core}/events", {"fieldSelector": about})
                ).get("items")
                if events:
                    message = max(events, key=lambda event: event.get("lastTimestamp") or "")[
                        "message"
                    ]
                    # Before it stands the pod's name, which may differ with every attempt.
                    why = message.removeprefix("Error creating: ").rpartition(" is forbidden: ")[2]
                    self._refused = printable(why, 500)
        except KubeError:
            return  # a right that an older role lacks: the condition says what is known without it
