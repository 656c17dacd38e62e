"""Whether the pod of an agent runs, from what the kubelet and the node controller say of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from toposcope.text import printable

LABELS: Final = {
    "app.kubernetes.io/name": "toposcope",
    "app.kubernetes.io/component": "agent",
}
"""Of the agents' pods and their DaemonSet. Overlays rename objects (`namePrefix`), and keep
labels."""
SELECTOR: Final = ",".join(f"{key}={value}" for key, value in LABELS.items())

_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that is about to start. All others are failures, such as
CrashLoopBackOff and ImagePullBackOff."""
_UNSCHEDULABLE: Final = "Unschedulable"
_NODE_SILENT: Final = "its node does not answer"
_NOT_READY: Final = "not Ready"
_AGENT: Final = "agent"
"""The name of the agent's container."""
_MOST_REASON_CHARACTERS: Final = 60
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    affinity: msgspec.Raw = msgspec.Raw()


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    reason: str | None = None
    last_transition_time: str | None = None


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _State(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None


class _Container(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    ready: bool = False
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_POD: Final = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class AgentPod:
    """The state of one agent's pod."""

    name: str
    node: str
    """The node where it runs, or is meant to run; empty if unknown."""
    is_ready: bool
    """Whether the agent is, whatever another container of the pod does."""
    is_failing: bool
    """Whether the kubelet says why its container does not start."""
    reason: str
    """Why it is not Ready, as `CrashLoopBackOff`; empty if it is."""
    since: datetime
    """When it became Ready or ceased to be, by the API server's clock."""


def read(raw: bytes | memoryview | msgspec.Raw) -> tuple[str, str, AgentPod]:
    """Name, resourceVersion and state of a Pod in JSON. Raises msgspec.ValidationError."""
    pod = _POD.decode(raw)
    metadata = pod.metadata
    ready = _condition(pod, "Ready")
    is_ready = ready is not None and ready.status == "True"
    is_ready = is_ready or has_working_agent(pod.status.container_statuses or ())
    reason = "" if is_ready else _reason(pod)
    state = AgentPod(
        name=metadata.name,
        node=pod.spec.node_name or _intended_node(pod.spec),
        is_ready=is_ready,
        is_failing=not is_ready and _waiting_reason(pod) not in _STARTING,
        reason=reason,
        since=_since(metadata, ready),
    )
    return metadata.name, metadata.resource_version, state


def _condition(pod: _Pod, kind: str) -> _Condition | None:
    for condition in pod.status.conditions or ():
        if condition.type == kind:
            return condition
    return None


def _waiting_reason(pod: _Pod) -> str:
    """Why its container waits, in the kubelet's word; empty if it does not."""
    for container in pod.status.container_statuses or ():
        if container.state.waiting:
            return container.state.waiting.reason
    return ""


def _reason(pod: _Pod) -> str:
    """Why it is not Ready, in the word of Kubernetes where there is one."""
    if pod.metadata.deletion_timestamp:
        return "Terminating"
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return printable(scheduled.reason or _UNSCHEDULABLE, _MOST_REASON_CHARACTERS)
    containers = pod.status.container_statuses or ()
    is_running = bool(containers) and all(container.ready for container in containers)
    return why_not_ready(_waiting_reason(pod), is_running=is_running)


class ContainerState(Protocol):
    """What the kubelet says of a container."""

    @property
    def name(self) -> str:
        """Its name in the pod."""

    @property
    def ready(self) -> bool:
        """Whether it runs, and its readiness probe succeeds."""


def has_working_agent(containers: Sequence[ContainerState]) -> bool:
    """Whether a pod is not Ready because of other containers than the agent's alone.

    The component node-endpoint adds one.
    """
    ready = {container.name: container.ready for container in containers}
    return ready.get(_AGENT, False) and not all(ready.values())


def why_not_ready(waiting: str, *, is_running: bool) -> str:
    """Why a pod is not Ready, given why a container waits and what the kubelet said last.

    Where the kubelet called all containers ready, the node controller has overruled it.
    """
    if waiting:
        return printable(waiting, _MOST_REASON_CHARACTERS)
    return _NODE_SILENT if is_running else _NOT_READY


def _since(metadata: _Meta, ready: _Condition | None) -> datetime:
    written = ready.last_transition_time if ready else None
    try:
        moment = datetime.fromisoformat(written or metadata.creation_timestamp)
    except ValueError:
        return _EPOCH
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _intended_node(spec: _Spec) -> str:
    """The node that the DaemonSet controller made an unscheduled pod for; empty if not known."""
    if not spec.affinity:
        return ""
    affinity: Any = msgspec.json.decode(spec.affinity)
    try:
        required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for term in required["nodeSelectorTerms"]:
            for field in term.get("matchFields") or ():
                if field["key"] == "metadata.name":
                    return str(field["values"][0])
    except (AttributeError, IndexError, KeyError, TypeError):
        return ""
    return ""
