"""The pod of an agent as the kubelet and the node controller describe it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from toposcope.kube.agent_pod import AgentPod, read

CREATED = datetime(2026, 3, 1, 8, tzinfo=UTC)
READY = AgentPod(name="agent-x", node="gpu-1", is_ready=True, is_failing=False, reason="", since=CREATED)


def container(name: str = "agent", *, ready: bool = True, waiting: str | None = None) -> dict[str, Any]:
    state = {} if waiting is None else {"waiting": {"reason": waiting}}
    return {"name": name, "ready": ready, "state": state}


def condition(kind: str, status: str, **fields: str) -> dict[str, str]:
    return {"type": kind, "status": status, **fields}


def pod_of(*containers: dict[str, Any], conditions: Any = (), spec: Any = None, **metadata: str) -> AgentPod:
    """What is read of a pod on `gpu-1`, created at eight."""
    document = {
        "metadata": {
            "name": "agent-x",
            "resourceVersion": "7",
            "creationTimestamp": "2026-03-01T08:00:00Z",
            **metadata,
        },
        "spec": {"nodeName": "gpu-1"} if spec is None else spec,
        "status": {"conditions": conditions, "containerStatuses": containers},
    }
    name, version, state = read(msgspec.json.encode(document))
    assert (name, version) == ("agent-x", "7")
    return state


def test_pod_when_ready_is_so_since_its_condition_changed() -> None:
    ready = condition("Ready", "True", lastTransitionTime="2026-03-01T09:30:00Z")
    scheduled = condition("PodScheduled", "True")
    nine_thirty = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    assert pod_of(container(), conditions=[scheduled, ready]) == replace(READY, since=nine_thirty)


@pytest.mark.parametrize(
    ("time", "since"),
    [
        pytest.param("2026-03-01T08:00:00", CREATED, id="without-a-zone-is-utc"),
        pytest.param("yesterday", datetime(1970, 1, 1, tzinfo=UTC), id="no-time-is-the-epoch"),
    ],
)
def test_pod_without_a_usable_condition_is_so_since_its_creation(time: str, since: datetime) -> None:
    silent = replace(READY, is_ready=False, reason="not Ready", since=since)
    assert pod_of(creationTimestamp=time) == silent


@pytest.mark.parametrize(
    ("waiting", "is_failing", "reason"),
    [
        pytest.param("CrashLoopBackOff", True, "CrashLoopBackOff", id="crashes"),
        pytest.param("ContainerCreating", False, "ContainerCreating", id="starts"),
        pytest.param("PodInitializing", False, "PodInitializing", id="initializes"),
        pytest.param("", False, "not Ready", id="no-reason"),
        pytest.param("\x1b[31m" + "x" * 80, True, r"\u001b[31m" + "x" * 47 + "...", id="not-printable"),
    ],
)
def test_container_that_waits_says_why(waiting: str, is_failing: bool, reason: str) -> None:
    state = pod_of(
        container(ready=False, waiting=waiting),
        conditions=[condition("Ready", "False"), condition("PodScheduled", "True")],
    )
    assert state == replace(READY, is_ready=False, is_failing=is_failing, reason=reason)


def test_agent_beside_a_container_that_is_not_ready_is_ready() -> None:
    other = container("node-endpoint", ready=False, waiting="ImagePullBackOff")
    assert pod_of(container(), other, conditions=[condition("Ready", "False")]) == READY


def test_agent_that_is_not_ready_beside_another_that_is_is_not() -> None:
    state = pod_of(container(ready=False), container("node-endpoint"), conditions=[condition("Ready", "False")])
    assert state == replace(READY, is_ready=False, reason="not Ready")


def test_silent_node_is_the_reason_where_all_containers_were_ready() -> None:
    state = pod_of(container(), container("node-endpoint"), conditions=[condition("Ready", "False")])
    assert state == replace(READY, is_ready=False, reason="its node does not answer")


def test_pod_that_is_deleted_is_terminating_whatever_else_is_wrong() -> None:
    state = pod_of(
        container(ready=False, waiting="CrashLoopBackOff"),
        conditions=[condition("PodScheduled", "False", reason="Unschedulable")],
        deletionTimestamp="2026-03-01T10:00:00Z",
    )
    assert state == replace(READY, is_ready=False, is_failing=True, reason="Terminating")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"reason": "SchedulerError"}, "SchedulerError", id="reason"),
        pytest.param({}, "Unschedulable", id="no-reason"),
    ],
)
def test_pod_that_is_not_scheduled_says_why(fields: dict[str, str], reason: str) -> None:
    state = pod_of(conditions=[condition("PodScheduled", "False", **fields)])
    assert state == replace(READY, is_ready=False, reason=reason)


def affine_to(*terms: Any) -> dict[str, Any]:
    """The spec of a pod that no scheduler has placed."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


NAMED = {"key": "metadata.name", "operator": "In", "values": ["gpu-9"]}


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        pytest.param(affine_to({"matchFields": [NAMED]}), "gpu-9", id="as-of-a-daemonset"),
        pytest.param(
            affine_to({"matchFields": None}, {"matchFields": [{"key": "other", "values": ["x"]}, NAMED]}),
            "gpu-9",
            id="after-others",
        ),
        pytest.param(affine_to({"matchExpressions": [NAMED]}), "", id="a-label-of-that-name"),
        pytest.param(affine_to({"matchFields": [{"key": "metadata.name", "values": []}]}), "", id="no-values"),
        pytest.param({"affinity": {"podAffinity": {}}}, "", id="no-node-affinity"),
        pytest.param({"affinity": None}, "", id="null"),
        pytest.param({}, "", id="no-affinity"),
    ],
)
def test_pod_without_a_node_is_meant_for_that_of_its_affinity(spec: dict[str, Any], node: str) -> None:
    assert pod_of(spec=spec).node == node
