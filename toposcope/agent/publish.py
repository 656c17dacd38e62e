"""Writes the description to the agent's own Node.

Server-side apply, only on a difference, guarded by the Node's uid. Each change of a label that an
admin wants to know about becomes an Event.

An apply removes every label of ours that it does not name. So a label whose value is unknown at the
moment is sent with the value that the Node has. With the description goes what ClusterTopologies
ask for (`planned`).
"""

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toposcope.agent.describe import Description
from toposcope.agent.labels import ALL
from toposcope.agent.nvidia_labels import MANAGER as NVIDIA_MANAGER
from toposcope.agent.nvidia_labels import owners
from toposcope.agent.owners import OwnedKeys, managers, node_body
from toposcope.agent.planned import CLEARED, FORMER, MANAGER, Planner, WantedKeys
from toposcope.api import label_keys
from toposcope.api.label_keys import MATRIX, PREFIX, RAILS, REFERENCE, SLINKY
from toposcope.hardware.topology import State
from toposcope.kube.account_rights import Right
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.confinement import FOREIGN_NODE_WRITES, NOBODY
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import NODES, apply, event, get, merge_patch
from toposcope.kube.runtime import REAL, Runtime

if TYPE_CHECKING:
    from toposcope.integrations.node_plan import NodePlan

_MOVED: Final = (
    (label_keys.NVLINK_DOMAIN, "NVLinkDomainChanged", "NVLink domain"),
    (label_keys.CHASSIS, "ChassisChanged", "chassis"),
)


class NodeEvent(NamedTuple):
    """One Event: `kind` is `Normal` or `Warning`."""

    kind: str
    reason: str
    note: str


def node_events(
    before: Mapping[str, str], after: Mapping[str, str], reasons: Sequence[str]
) -> list[NodeEvent]:
    """The Events between two sets of labels; `reasons` explain the second.

    The first are none, unless degraded.
    """
    events = []
    why = "; ".join(reasons) or "no reason is known"
    state_event = _state_event(before, after, why)
    if state_event:
        events.append(state_event)
    for key, reason, what in _MOVED:
        old = before.get(key)
        new = after.get(key)
        if old is None or new is None or old == new:
            continue
        note = f"{what} changed from {old} to {new}"
        events.append(NodeEvent("Normal", reason, note))
    return events


def _state_event(before: Mapping[str, str], after: Mapping[str, str], why: str) -> NodeEvent | None:
    was, now = before.get(label_keys.STATE), after.get(label_keys.STATE)
    if was == now:
        return None
    if now == State.DEGRADED:
        return NodeEvent("Warning", "NodeDegraded", why)
    if was is None:
        return None
    if now == State.UNKNOWN:
        return NodeEvent("Warning", "TopologyUnknown", f"the labels are stale: {why}")
    if now == State.OK:
        note = "all GPUs and links of the node's baseline are back"
        return NodeEvent("Normal", "NodeHealthy", note)
    return None


REPORTER: Final = "agent"
RIGHTS: Final = frozenset(
    {
        Right("", "nodes", "get"),
        Right("", "nodes", "watch"),
        Right("", "nodes", "patch"),
        Right("events.k8s.io", "events", "create"),
        # With the component slice-audit.
        Right("resource.k8s.io", "resourceslices", "list"),
        # With the components node-endpoint, unique-values and slinky.
        Right("", "configmaps", "get", ("toposcope-node-plan",)),
        Right("", "configmaps", "watch", ("toposcope-node-plan",)),
        Right("gpu.topology", "slinkyannotations", "write"),
    }
)
"""What RBAC may grant the agent."""
_ANNOTATIONS: Final = frozenset({MATRIX, RAILS, REFERENCE})
_MOST_NAMES_TRIED: Final = 4


def owned_keys(metadata: Mapping[str, Any]) -> OwnedKeys:
    """The labels and annotations of ours in a Node's metadata."""
    return OwnedKeys(
        labels=_only(ALL, metadata.get("labels")),
        annotations=_only(_ANNOTATIONS, metadata.get("annotations")),
    )


def _only(keys: frozenset[str], carried: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (carried or {}).items() if key in keys}


def desired(description: Description, node: OwnedKeys) -> OwnedKeys:
    """What the Node should carry.

    The labels that are known, and the values that it has of those that are not.
    """
    labels = _only(description.labels.unknown, node.labels)
    labels.update(description.labels.by_key)
    annotations = node.annotations if description.problem else description.annotations
    return OwnedKeys(labels, dict(annotations))


def _joined(own: OwnedKeys, planned: OwnedKeys) -> OwnedKeys:
    return OwnedKeys({**own.labels, **planned.labels}, {**own.annotations, **planned.annotations})


def _dropped(before: OwnedKeys, after: OwnedKeys) -> dict[str, list[str]]:
    """The labels and annotations of the first that the second has no more."""
    return {
        "labels": [key for key in before.labels if key not in after.labels],
        "annotations": [key for key in before.annotations if key not in after.annotations],
    }


class NodePublisher:
    """Keeps the labels and annotations of one Node equal to the description last published."""

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        planner: Planner | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._path = f"{NODES}/{node_name}"
        self._name = node_name
        self._runtime = runtime
        self._planner = planner or Planner(node_name)
        self._node: OwnedKeys | None = None
        self._planned = OwnedKeys({}, {})
        """What ClusterTopologies asked for, as it is on the Node."""
        self.baseline: str | None = None
        """The annotation with the best that the node has shown, as last read or written."""
        self.metadata: Mapping[str, Any] = {}
        """The Node's metadata, as last read or written."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The Node's annotations, as last read or written."""
        return self.metadata.get("annotations") or {}

    def refresh(self) -> None:
        """Read the Node, so that the next publish also reverts what others changed.

        Raises KubeError.
        """
        self._cache(self._client.call(get(self._path, is_metadata_only=True)))

    def _cache(self, node: Any) -> OwnedKeys:
        self.metadata = node["metadata"]
        self._node = owned_keys(self.metadata)
        self._planned = self._planner.present(self.metadata)
        self.baseline = self._node.annotations.get(REFERENCE)
        return self._node

    def owned(self, metadata: Mapping[str, Any]) -> OwnedKeys:
        """All labels and annotations of ours in a Node's metadata.

        For another thread, as the next two.
        """
        return _joined(owned_keys(metadata), self._planner.present(metadata))

    def follow(self, plan: "NodePlan") -> None:
        """Have the Node carry what ClusterTopologies ask for from the next publish on."""
        self._planner.follow(plan)

    def differs(self, keys: OwnedKeys) -> bool:
        """Whether the Node should carry something else, as far as is known."""
        node = self._node
        return node is None or keys != _joined(node, self._planned)

    def inputs(self, metadata: Mapping[str, Any]) -> Hashable:
        """What else on the Node decides about keys of ours."""
        return self._planner.inputs(metadata)

    def is_pending(self, description: Description) -> bool:
        """Whether the Node needs a write, as far as is known."""
        if self._node is None:
            return True
        after = desired(description, self._node)
        return after != self._node or self._wanted(after).keys != self._planned

    def publish(self, description: Description) -> list[NodeEvent] | None:
        """Make the Node carry `description`.

        The Events to record, or None if nothing had to change. Raises KubeError. A Node that was
        deleted and recreated under the same name has another uid: it is read again, then written.
        """
        if self._node is None:
            self.refresh()
        try:
            return self._write(description)
        except ApiError as error:
            if not error.is_conflict and not error.is_unprocessable:
                raise
            self.refresh()
            return self._write(description)

    def _write(self, description: Description) -> list[NodeEvent] | None:
        before = self._node
        if before is None:
            raise AssertionError("publish reads the Node first")
        after = desired(description, before)
        planned = self._wanted(after)
        if after == before and planned.keys == self._planned:
            return None
        dropped = _dropped(self._planned, planned.keys)
        self._node = None  # what the Node carries is unknown until the server has answered
        self._cache(self._client.call(self._apply(after, planned)))
        self._take_away(dropped)
        # A co-owned key stays although we dropped it; another apply would not change that.
        self._node = after
        return node_events(before.labels, after.labels, _reasons(description))

    def _wanted(self, own: OwnedKeys) -> WantedKeys:
        """What ClusterTopologies ask for on the Node once it carries `own`."""
        labels = {**(self.metadata.get("labels") or {})}
        for key in ALL:
            labels.pop(key, None)
        return self._planner.wanted(self.metadata, {**labels, **own.labels})

    def _apply(self, own: OwnedKeys, planned: WantedKeys) -> Request:
        """The apply of all keys of ours."""
        keys = _joined(own, planned.keys)
        metadata: dict[str, Any] = {"name": self._name, "uid": self.metadata["uid"]}
        annotations = dict(keys.annotations)
        if planned.has_other_owner:
            annotations.pop(SLINKY, None)
        elif SLINKY in annotations:
            # By force it would take the annotation from an owner who came after the Node was read.
            metadata["resourceVersion"] = self.metadata.get("resourceVersion")
        metadata["labels"] = keys.labels
        metadata["annotations"] = annotations
        body = node_body(metadata)
        return apply(self._path, body, MANAGER, force=True, is_metadata_only=True)

    def _take_away(self, dropped: Mapping[str, Sequence[str]]) -> None:
        """Remove what an apply left because a former version's controller owns it too.

        Raises KubeError.
        """
        changed: dict[str, Any] = {}
        for field, keys in dropped.items():
            remaining = [key for key in keys if self._is_co_owned(field, key)]
            if remaining:
                changed[field] = dict.fromkeys(remaining)
        if not changed:
            return

        uid = self.metadata["uid"]
        patch = {"metadata": {"uid": uid, **changed}}
        request = merge_patch(self._path, MANAGER, patch)
        node = self._client.call(request)
        self._cache(node)

    def _is_co_owned(self, field: str, key: str) -> bool:
        """Whether the Node has a key that a former version's controller owns too."""
        carried = self.metadata.get(field) or {}
        if key not in carried:
            return False
        owned_by = managers(self.metadata, field, key)
        return not owned_by.isdisjoint({FORMER, CLEARED})

    def record_event(self, node_event: NodeEvent) -> None:
        """Record an Event on the Node.

        Raises KubeError, a conflict where the Node has many already.

        The admission policy lets it have 256 names; one that is taken is free again when the API
        server forgets it.
        """
        regarding = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self._name,
            "uid": self.metadata["uid"],
        }
        now = self._runtime.now()
        for attempt in range(_MOST_NAMES_TRIED):
            moment = now + timedelta(microseconds=attempt)  # another moment makes another name
            try:
                self._client.call(self._event(regarding, node_event, moment))
            except ApiError as error:
                if not error.is_conflict or attempt == _MOST_NAMES_TRIED - 1:
                    raise
            else:
                return

    def _event(self, regarding: dict[str, str], node_event: NodeEvent, moment: datetime) -> Request:
        return event(regarding, *node_event, REPORTER, instance=self._name, now=moment, digits=2)

    def foreign_writes(self) -> dict[str, Request]:
        """Writes that the admission policies must refuse, one of each kind.

        What each would do, and its request.
        """
        writes = {
            "a label outside gpu.topology/": {
                "metadata": {"labels": {f"{NOBODY}/unconfined": "true"}}
            },
            "an annotation outside gpu.topology/": {
                "metadata": {"annotations": {f"{NOBODY}/unconfined": "true"}}
            },
            **FOREIGN_NODE_WRITES,
        }
        requests = {what: merge_patch(self._path, MANAGER, body) for what, body in writes.items()}
        elsewhere = {"apiVersion": "v1", "kind": "Node", "name": NOBODY}
        now = self._runtime.now()
        report = event(
            elsewhere, "Normal", "Unconfined", "", REPORTER, instance=self._name, now=now
        )
        return {**requests, "an Event about another Node": report}

    def cleanup(self) -> int:
        """Remove what any agent wrote on the Node; how many labels and annotations that were.

        Raises KubeError.
        """
        todo = removal(self._client.call(get(self._path, is_metadata_only=True))["metadata"])
        for request in todo.requests:
            self._client.call(request)
        return todo.keys


class Removal(NamedTuple):
    """The requests that clean one Node, in this order.

    `keys` is how many labels and annotations they remove.
    """

    requests: tuple[Request, ...]
    keys: int


def removal(metadata: Mapping[str, Any]) -> Removal:
    """How to remove the keys under our prefix, and the keys of others that only we own.

    Keys under our prefix go even if they are co-owned.
    """
    path = f"{NODES}/{metadata['name']}"
    requests = []
    labels = _under_prefix(metadata, "labels")
    annotations = _under_prefix(metadata, "annotations")
    annotators = managers(metadata, "annotations", SLINKY)
    if annotators and annotators <= {MANAGER, FORMER}:
        annotations[SLINKY] = None
    keys = len(labels) + len(annotations)
    if keys:
        # A merge patch, because an apply cannot remove what another manager co-owns.
        gone = {
            "uid": metadata["uid"],
            "labels": labels,
            "annotations": annotations,
        }
        request = merge_patch(path, MANAGER, {"metadata": gone})
        requests.append(request)
    nvidia_labels = owners(metadata)
    if nvidia_labels.ours:
        requests.append(_nothing_of_ours(path, metadata))
        keys += len(nvidia_labels.ours - nvidia_labels.theirs)
    return Removal(tuple(requests), keys)


def _nothing_of_ours(path: str, metadata: Mapping[str, Any]) -> Request:
    """An apply of no labels.

    The server removes those that only we own, and drops us as owner of the others. Without the
    empty mapping it would also remove those that nobody owns.
    """
    nothing = {
        "name": metadata["name"],
        "uid": metadata["uid"],
        "labels": {},
    }
    return apply(path, node_body(nothing), NVIDIA_MANAGER, force=False, is_metadata_only=True)


def _under_prefix(metadata: Mapping[str, Any], field: str) -> dict[str, None]:
    carried = metadata.get(field) or {}
    return {key: None for key in carried if key.startswith(PREFIX)}


def _reasons(description: Description) -> Sequence[str]:
    """Why the node is in the state that it is in."""
    if description.topology:
        return [reason for reason in description.topology.reasons if reason]
    return [description.problem] if description.problem else []
