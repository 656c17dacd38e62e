"""Why the agents' DaemonSet has no pods, from its status and the DaemonSet controller's Events.

Without a pod there is no log to read: a missing RuntimeClass, an exhausted quota and Pod Security
are seen only here.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.assess.agents import NO_MISSING_PODS, MissingPods
from toposcope.kube.agent_pod import SELECTOR
from toposcope.kube.client import Caller, Request
from toposcope.kube.config import pod_namespace
from toposcope.kube.errors import KubeError
from toposcope.kube.listing import everything
from toposcope.kube.runtime import Runtime
from toposcope.text import printable

_VALID_SECONDS: Final = 15.0
"""How long an answer is used: passes can be a second apart."""
_MOST_REFUSAL_CHARACTERS: Final = 500


class AgentPods:
    """Reads the DaemonSet of the namespace that the controller runs in."""

    def __init__(self, client: Caller, runtime: Runtime, namespace: str = "") -> None:
        self._client = client
        self._runtime = runtime
        self._namespace = namespace or pod_namespace() or HOME_NAMESPACE
        self._valid_until = -math.inf
        self._missing = NO_MISSING_PODS

    def look(self) -> MissingPods:
        """Why agents have no pods, as far as it can be read."""
        if self._runtime.monotonic() >= self._valid_until:
            self._missing = self._read()
            self._valid_until = self._runtime.monotonic() + _VALID_SECONDS
        return self._missing

    def _read(self) -> MissingPods:
        refusal = shortage = ""
        path = f"/apis/apps/v1/namespaces/{self._namespace}/daemonsets"
        try:
            for daemon_set in everything(self._client, path, selector=SELECTOR):
                status = daemon_set.get("status") or {}
                current = status.get("currentNumberScheduled", 0)
                desired = status.get("desiredNumberScheduled", 0)
                if current >= desired:
                    continue
                metadata = daemon_set["metadata"]
                name = metadata["name"]
                shortage = (
                    f"the agent's DaemonSet has pods on {current} of {desired} nodes: "
                    f"see `kubectl -n {self._namespace} describe daemonset {name}`"
                )
                refusal = self._refusal(metadata["uid"]) or refusal
        except KubeError:
            # A right that an older role lacks: the condition says what is known without it.
            return MissingPods(refusal, shortage)
        return MissingPods(refusal, shortage)

    def _refusal(self, uid: str) -> str:
        """Why the last pod of a DaemonSet could not be created; empty if there is no such Event.

        Raises KubeError.
        """
        path = f"/api/v1/namespaces/{self._namespace}/events"
        about = f"reason=FailedCreate,involvedObject.uid={uid}"
        answer = self._client.call(Request("GET", path, {"fieldSelector": about}))
        events = answer.get("items")
        if not events:
            return ""
        latest = max(events, key=_last_seen)
        message: str = latest["message"]
        text = message.removeprefix("Error creating: ")
        # Before it stands the pod's name, which may differ with every attempt.
        _, _, why = text.rpartition(" is forbidden: ")
        return printable(why, _MOST_REFUSAL_CHARACTERS)


def _last_seen(event: Mapping[str, Any]) -> str:
    return event.get("lastTimestamp") or ""
