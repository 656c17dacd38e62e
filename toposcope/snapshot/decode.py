"""Kubernetes objects, decoded down to what a snapshot keeps, from JSON text or from parsed YAML.

A Node of 27 kB becomes some 600 bytes: whatever repeats from node to node (label keys, values,
resource lists, conditions) is kept once.
"""

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from toposcope.api import placed_path
from toposcope.api.cluster_topology import Topology
from toposcope.api.cluster_topology import read as read_topology
from toposcope.api.label_keys import MATRIX, STATE
from toposcope.api.label_values import MAX_VALUE_CHARACTERS, is_harmless_value, is_name
from toposcope.api.levels import Level
from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.hardware.topology import State
from toposcope.hierarchy.fault_domains import AZURE
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.framework.plugin import Plugin, PluginPart
from toposcope.integrations.framework.pod_rules import (
    ANY_ADDRESS,
    NOT_KEPT,
    HostPort,
    PodTerm,
    repelled_by,
)
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.registry import PLUGINS
from toposcope.kube.agent_pod import LABELS, has_working_agent, why_not_ready
from toposcope.kube.pod_resources import (
    MOST_AMOUNT,
    ContainerRequests,
    Requests,
    amounts,
    gpu_count,
    pod_requests,
)
from toposcope.snapshot.model import NOTHING, NodeView, Owner, PodView, PublishedTopology
from toposcope.snapshot.problems import FieldError
from toposcope.text import bounded, listing

_NO_NAME: Final = (
    "is not a valid name: use lower-case letters, digits, '-' and '.', up to 253 of them"
)
_NO_VALUE: Final = (
    f"is not a valid label value: use letters, digits, '-', '_' and '.', "
    f"up to {MAX_VALUE_CHARACTERS} of them, and begin and end with a letter or digit"
)
_SHOWN_CHARACTERS: Final = 80
"""Of a text that is refused."""


def checked_names(**names: str) -> None:
    """Raise ValueError, with the path of the field, for names that the API server would refuse."""
    for field_name, name in names.items():
        if not is_name(name):
            raise _refused(name, _NO_NAME, f"metadata.{field_name}")


def _refused(text: str, why: str, path: str) -> FieldError:
    """The error for a text that the API server would refuse in the field of this path."""
    return FieldError(f"{text!r} {why}", f"$.{path}")


def _checked_keys(keys: Sequence[str]) -> None:
    """Raise ValueError for label keys with control characters and the like.

    Other characters that no label key can have are harmless.
    """
    for key in keys:
        if not key.isprintable():
            shown = key[:_SHOWN_CHARACTERS]
            raise _refused(shown, "cannot be in a label", "metadata.labels")


def _checked_value(value: str) -> str:
    """Return the value of a label, if it is harmless in other systems' files and in a shell.

    Letters beyond ASCII, and punctuation at its ends, which no label has either, are harmless.
    Raises ValueError.
    """
    if not is_harmless_value(value):
        shown = value[:_SHOWN_CHARACTERS]
        raise _refused(shown, _NO_VALUE, "metadata.labels")
    return value


def topology_of(document: Any) -> Topology:
    """One ClusterTopology. Raises ValueError for an object that the CRD would have rejected."""
    root = Field(document)
    metadata = root / "metadata"
    name = (metadata / "name").value
    if not isinstance(name, str):
        raise ValueError(  # noqa: TRY004 - the document is wrong, not a caller
            "a ClusterTopology needs metadata.name, a string; "
            "kubectl apply --dry-run=server shows other problems"
        )
    checked_names(name=name)
    return read_topology(document)


Raw = bytes | memoryview | msgspec.Raw
Quantities = dict[str, str | int | float] | None
KeepMatrix = Callable[[str, bool], bool]
"""Whether to keep a node's matrix annotation, by its name and whether its state is not ok."""

_MOST_NAMED: Final = 3
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that keep new pods off."""
FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod no longer uses anything of its node."""


def _kept_prefixes() -> Iterator[str]:
    for plugin in PLUGINS:
        yield from plugin.pod_metadata


def _placing_annotations() -> Iterator[str]:
    for plugin in PLUGINS:
        yield from plugin.placing_annotations


_KEPT_PREFIXES: Final = (placed_path.ANNOTATION, *_kept_prefixes())
"""Of pod labels and annotations that are kept: they name a pod's group, ask for a placement, and
say where the pod was bound."""
_PLACING: Final = frozenset(_placing_annotations())
"""Annotations of pods whose wishes about nodes are kept also without GPUs."""

_T = TypeVar("_T")


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    effect: str = ""
    value: str | None = None


class _NodeSpec(msgspec.Struct, frozen=True, gc=False):
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    message: str = ""
    reason: str = ""


class _NodeStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_Condition] | None = None
    allocatable: Quantities = None


class _Node(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _Resources(msgspec.Struct, frozen=True, gc=False):
    requests: Quantities = None
    limits: Quantities = None


class _Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class _Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    resources: _Resources | None = None
    restart_policy: str | None = None
    ports: list[_Port] | None = None


class _PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str | None = None
    scheduler_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Quantities = None
    resources: _Resources | None = None
    node_selector: dict[str, Any] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: list[Any] | None = None
    priority: Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)] | None = None
    scheduling_group: dict[str, Any] | None = None
    topology_spread_constraints: list[Any] | None = None
    host_network: bool | None = None


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    ready: bool = False
    state: _ContainerState | None = None
    resources: _Resources | None = None
    allocated_resources: Quantities = None


class _PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: _Resources | None = None
    allocated_resources: Quantities = None


_NO_NODE_SPEC: Final = _NodeSpec()
_NO_NODE_STATUS: Final = _NodeStatus()
_NO_POD_SPEC: Final = _PodSpec()
_NO_POD_STATUS: Final = _PodStatus()


class _OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str
    kind: str
    name: str
    controller: bool | None = None


class _PodMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str = "default"
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_OwnerReference] | None = None


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _PodMeta
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _ListedNode(_Node, frozen=True, gc=False, tag_field="kind", tag="Node", kw_only=True):
    api_version: Literal["v1"] = msgspec.field(name="apiVersion")


class _ListedPod(_Pod, frozen=True, gc=False, tag_field="kind", tag="Pod", kw_only=True):
    api_version: Literal["v1"] = msgspec.field(name="apiVersion")


_LISTED: Final = msgspec.json.Decoder(list[_ListedNode | _ListedPod])


class _Level(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    domain: str = ""
    key: str = ""
    node_label: str = ""


class _PublishedSpec(msgspec.Struct, frozen=True, gc=False):
    levels: list[_Level] | None = None


class _Published(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    spec: _PublishedSpec | None = None


def _requests_of(spec: _PodSpec, status: _PodStatus) -> dict[str, int]:
    """What a pod takes of its node: its requests, or more while it is resized in place.

    Raises ValueError that names the field and the resource.
    """
    held = _held_while_resized(spec, status)
    containers = []
    for number, container in enumerate(spec.containers or ()):
        containers.append(_container(f"spec.containers[{number}]", container, held))

    init_containers = []
    for number, container in enumerate(spec.init_containers or ()):
        is_sidecar = container.restart_policy == "Always"
        held_by_it = held if is_sidecar else _NOT_RESIZED
        requests = _container(f"spec.initContainers[{number}]", container, held_by_it)
        init_containers.append(ContainerRequests(requests, is_sidecar))

    overhead = None
    if spec.overhead:
        overhead = _amounts("spec.overhead", spec.overhead)
    of_pod = None
    if spec.resources:
        of_pod = _with_limits("spec.resources", spec.resources)
        of_pod = _or_held(of_pod, held.get(""))
    return pod_requests(containers, init_containers, overhead, of_pod)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a container holds by its status."""

    amounts: Mapping[str, int]
    is_infeasible: bool
    """Whether its node can never give it what its spec asks for now."""


_NOT_RESIZED: Final[Mapping[str, _Held]] = {}


def _held_while_resized(spec: _PodSpec, status: _PodStatus) -> Mapping[str, _Held]:
    """By name of a container: what it holds where that may not be what its spec asks for.

    The pod as a whole has the empty name. Source: Kubernetes 1.36 (k8s.io/component-helpers
    resource.PodRequests with UseStatusResources).
    """
    if not status.container_statuses and not status.resources:
        return _NOT_RESIZED
    written = {}
    for container in _both(spec.containers, spec.init_containers):
        written[container.name] = container.resources
    held = {}
    for part in _both(status.container_statuses, status.init_container_statuses):
        if _is_resized(part, written.get(part.name)):
            at = f"status.containerStatuses of {part.name}"
            held[part.name] = _held(at, part.resources, part.allocated_resources, status)
    if status.resources:
        held[""] = _held("status", status.resources, status.allocated_resources, status)
    return held


def _both(main: list[_T] | None, init: list[_T] | None) -> list[_T]:
    """What there is of containers and of init containers."""
    if not init:
        return main or []
    return [*(main or ()), *init]


def _is_resized(part: _ContainerStatus, written: _Resources | None) -> bool:
    """Whether a status says something else than the spec, which it seldom does."""
    if part.resources is None:
        return False
    requested = written.requests if written else None
    for quantities in (part.resources.requests, part.allocated_resources):
        if quantities and quantities != requested:
            return True
    return False


def _held(at: str, actual: _Resources | None, allocated: Quantities, status: _PodStatus) -> _Held:
    amounts_held = _amounts(at, actual.requests if actual else None)
    for resource, count in _amounts(at, allocated).items():
        amounts_held[resource] = max(count, amounts_held.get(resource, 0))
    is_infeasible = False
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            is_infeasible = condition.reason == "Infeasible"
    return _Held(amounts_held, is_infeasible)


def _or_held(requests: Requests, held: _Held | None) -> Requests:
    """The larger amounts of a spec and a status; the latter's alone where the spec is refused."""
    if held is None:
        return requests
    if held.is_infeasible:
        return held.amounts
    larger = dict(requests)
    for resource, count in held.amounts.items():
        larger[resource] = max(count, larger.get(resource, 0))
    return larger


def _container(at: str, container: _Container, held: Mapping[str, _Held]) -> Requests:
    requests: Requests = NOTHING
    if container.resources:
        requests = _with_limits(f"{at}.resources", container.resources)
    if held:
        return _or_held(requests, held.get(container.name))
    return requests


def _with_limits(at: str, resources: _Resources) -> Requests:
    """The requests; a limit counts where the request is missing, as the API server has it."""
    requests = _amounts(f"{at}.requests", resources.requests)
    if not resources.limits:
        return requests
    return _amounts(f"{at}.limits", resources.limits) | requests


def _amounts(at: str, quantities: Quantities) -> dict[str, int]:
    try:
        return amounts(quantities)
    except ValueError as error:
        raise ValueError(f"{at}: {error}") from None


def keep_degraded(_name: str, is_not_ok: bool) -> bool:
    """Keep the matrices of nodes that are not ok: these matrices hold the reasons.

    The matrices of all of 100,000 nodes would take 250 MB.
    """
    return is_not_ok


def keep_every(_name: str, _is_not_ok: bool) -> bool:
    """Keep every matrix."""
    return True


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the cyclic garbage collector, which would scan a growing heap again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_Pairs = tuple[tuple[str, _T], ...]
"""The entries of a mapping, by which equal ones are found."""


@dataclass(slots=True, eq=False)
class Decoder:
    """Turns objects into views that share every part that repeats. Not thread-safe."""

    keep_matrix: KeepMatrix = keep_degraded
    _strings: dict[str, str] = field(default_factory=dict)
    _label_values: dict[str, str] = field(default_factory=dict)
    _matrices: dict[str, str] = field(default_factory=dict)
    _places: dict[tuple[str, ...], Mapping[str, int]] = field(default_factory=dict)
    _resources: dict[_Pairs[str | int | float], Requests] = field(default_factory=dict)
    _conditions: dict[_Pairs[str], Mapping[str, str]] = field(default_factory=dict)
    _taints: dict[tuple[Taint, ...], tuple[Taint, ...]] = field(default_factory=dict)
    _wants: dict[bytes, Mapping[str, Any]] = field(default_factory=dict)
    _owners: dict[tuple[str, str, str], Owner] = field(default_factory=dict)
    _pod_requests: dict[_Pairs[int], Requests] = field(default_factory=dict)
    _metadata: dict[_Pairs[str], Mapping[str, str]] = field(default_factory=dict)
    _selectable: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    _last_labels: tuple[Mapping[str, str], tuple[str, ...]] = field(
        default_factory=lambda: ({}, ())
    )
    _repelled: dict[bytes, tuple[PodTerm, ...]] = field(default_factory=dict)
    _ports: dict[tuple[HostPort, ...], tuple[HostPort, ...]] = field(default_factory=dict)
    unready_agents: dict[str, str] = field(default_factory=dict)
    """By node: why the pod of its agent is not Ready, where it is not."""
    _capped: list[str] = field(default_factory=list)
    """Objects with an amount that counts as `MOST`."""

    def warnings(self) -> list[str]:
        """A sentence about the values that were not taken as they stand."""
        if not self._capped:
            return []
        names = listing(self._capped, _MOST_NAMED)
        larger = f"{names}: a quantity is larger than Kubernetes can count"
        return [f"{larger}, and counts as {MOST_AMOUNT}; correct it"]

    def node(self, read: Callable[[type[Any]], Any]) -> NodeView:
        """One Node; `read` decodes the object to the type that it is given.

        Raises msgspec.ValidationError (with the path of the field) or ValueError for an object that
        is not a Node.
        """
        return self._node(read(_Node))

    def pod(self, read: Callable[[type[Any]], Any]) -> PodView | None:
        """One Pod; None for a Pod that has finished. Raises as `node` does."""
        return self._pod(read(_Pod))

    def listed(self, text: Raw) -> tuple[list[NodeView], list[PodView | None]]:
        """The Nodes and Pods of a JSON list of nothing else; None for each Pod that has finished.

        Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError or ValueError where anything
        is wrong.
        """
        nodes = []
        pods = []
        for item in _LISTED.decode(text):
            if isinstance(item, _ListedNode):
                nodes.append(self._node(item))
            else:
                pods.append(self._pod(item))
        return nodes, pods

    def _node(self, node: _Node) -> NodeView:
        spec = node.spec or _NO_NODE_SPEC
        status = node.status or _NO_NODE_STATUS
        metadata = node.metadata
        name = metadata.name
        checked_names(name=name)

        allocatable = self._allocatable(status.allocatable)
        if MOST_AMOUNT in allocatable.values():
            self._capped.append(f"node {name}")

        labels = metadata.labels or {}
        keys = tuple(sorted(labels))
        places = self._places.get(keys)
        if places is None:
            places = self._places[keys] = self._new_places(keys)
        values = [labels[key] for key in keys]

        taints: tuple[Taint, ...] = ()
        if spec.taints:
            taints = self._shared_taints(spec.taints)
        conditions, is_ready = self._node_conditions(status.conditions or ())
        return NodeView(
            name=name,
            uid=metadata.uid,
            places=places,
            values=self._values(name, values),
            is_ready=is_ready,
            is_schedulable=not spec.unschedulable,
            taints=taints,
            allocatable=allocatable,
            conditions=conditions,
            matrix=self._matrix(name, labels.get(STATE), metadata.annotations),
            is_of_azure=(spec.provider_id or "").startswith(AZURE),
        )

    def _new_places(self, keys: Sequence[str]) -> dict[str, int]:
        """The position of each label key."""
        _checked_keys(keys)
        places: dict[str, int] = {}
        for key in keys:
            shared_key = self._strings.setdefault(key, key)
            places[shared_key] = len(places)
        return places

    def _node_conditions(self, conditions: Iterable[_Condition]) -> tuple[Mapping[str, str], bool]:
        """The conditions of a node, and whether it is Ready."""
        share = self._strings.setdefault
        is_ready = False
        pairs = []
        for condition in conditions:
            shared_type = share(condition.type, condition.type)
            pairs.append((shared_type, condition.status))
            if condition.type == "Ready" and condition.status == "True":
                is_ready = True
        return _shared(self._conditions, tuple(pairs)), is_ready

    def _matrix(
        self, name: str, state: str | None, annotations: Mapping[str, str] | None
    ) -> str | None:
        """The link matrix of a node, if it is wanted."""
        matrix = annotations.get(MATRIX) if annotations else None
        if matrix is None:
            return None
        not_ok = state is not None and state != State.OK
        if not self.keep_matrix(name, not_ok):
            return None
        return self._matrices.setdefault(matrix, matrix)

    def _pod(self, pod: _Pod) -> PodView | None:
        spec = pod.spec or _NO_POD_SPEC
        status = pod.status or _NO_POD_STATUS
        meta = pod.metadata
        node = spec.node_name or ""
        checked_names(name=meta.name, namespace=meta.namespace)
        if node and not is_name(node):
            raise _refused(node, _NO_NAME, "spec.nodeName")
        if status.phase in FINISHED:
            return None

        annotations = self._kept(meta.annotations)
        requests = self._requested(spec, status, meta)
        wants = NOTHING
        if self._places_matter(spec, annotations, requests):
            wants = self._wanted(spec)

        return PodView(
            namespace=self._share(meta.namespace),
            name=meta.name,
            node=self._share(node),
            phase=self._share(status.phase),
            requests=requests,
            owner=self._owner(meta.owner_references),
            labels=self._kept(meta.labels),
            annotations=annotations,
            scheduler=self._share(spec.scheduler_name),
            waiting=self._why_waiting(node, meta.labels, status),
            wants=wants,
            priority=spec.priority or 0,
            selectable=self._selectable_of(meta.labels),
            repels=self._repels(spec, meta),
            ports=self._host_ports(spec),
        )

    def _why_waiting(self, node: str, labels: Mapping[str, str] | None, status: _PodStatus) -> str:
        """Why a pod has no node, as `_why_waiting`; of an agent's pod, note whether it is Ready."""
        if not node:
            return _why_waiting(status.conditions)
        if labels and LABELS.items() <= labels.items():
            self._look_at_agent(node, status)
        return ""

    def _look_at_agent(self, node: str, status: _PodStatus) -> None:
        """Note whether the pod of a node's agent is Ready."""
        self.unready_agents.pop(node, None)
        if _is_true("Ready", status.conditions):
            return
        containers = status.container_statuses or ()
        if has_working_agent(containers):
            return
        waiting = ""
        for container in containers:
            if container.state and container.state.waiting:
                waiting = container.state.waiting.reason
        is_running = bool(containers) and all(container.ready for container in containers)
        self.unready_agents[node] = why_not_ready(waiting, is_running=is_running)

    def _selectable_of(self, labels: Mapping[str, str] | None) -> tuple[str, ...]:
        """Keys and values in turn, shared by pods with the same labels.

        Such pods mostly are listed one after the other.
        """
        if not labels:
            return ()
        before, selectable = self._last_labels
        if labels == before:
            return selectable
        share = self._strings.setdefault
        texts: list[str] = []
        for key in sorted(labels):
            if key not in NOT_KEPT:
                value = labels[key]
                texts.append(share(key, key))
                texts.append(share(value, value))
        selectable = tuple(texts)
        selectable = self._selectable.setdefault(selectable, selectable)
        self._last_labels = labels, selectable
        return selectable

    def _repels(self, spec: _PodSpec, meta: _PodMeta) -> tuple[PodTerm, ...]:
        """The required pod anti-affinity, which most pods have none of."""
        if not spec.affinity or "podAntiAffinity" not in spec.affinity:
            return ()
        labels = meta.labels or {}
        content = msgspec.json.encode([spec.affinity["podAntiAffinity"], meta.namespace, labels])
        terms = self._repelled.get(content)
        if terms is None:
            terms = repelled_by(Field(spec.affinity), meta.namespace, labels)
            self._repelled[content] = terms
        return terms

    def _host_ports(self, spec: _PodSpec) -> tuple[HostPort, ...]:
        on_host = bool(spec.host_network)
        host_ports: list[HostPort] = []
        for container in spec.containers or ():
            if container.ports:
                host_ports += _ports_of(container.ports, on_host=on_host)
        for container in spec.init_containers or ():
            if container.ports and container.restart_policy == "Always":
                host_ports += _ports_of(container.ports, on_host=on_host)
        if not host_ports:
            return ()
        ports = tuple(host_ports)
        return self._ports.setdefault(ports, ports)

    def _requested(self, spec: _PodSpec, status: _PodStatus, meta: _PodMeta) -> Requests:
        requests = _requests_of(spec, status)
        if not requests:
            return NOTHING
        if MOST_AMOUNT in requests.values():
            self._capped.append(f"pod {meta.namespace}/{meta.name}")
        pairs = tuple(requests.items())
        return _shared(self._pod_requests, pairs)

    def _share(self, text: str | None) -> str:
        """The same text, which is kept in memory once."""
        if not text:
            return ""
        return self._strings.setdefault(text, text)

    @staticmethod
    def _places_matter(spec: _PodSpec, annotations: Mapping[str, str], requests: Requests) -> bool:
        """Whether to keep what a pod says about nodes: it has GPUs, waits, or is of a gang."""
        if spec.scheduling_group or not spec.node_name or gpu_count(requests):
            return True
        return not _PLACING.isdisjoint(annotations)

    def _values(self, name: str, values: list[str]) -> tuple[str, ...]:
        """Label values of a node, shared with other nodes.

        Its own name is not: no other node carries it, so it would only fill the table.
        """
        if name in values:
            return tuple([name if value == name else self._value(value) for value in values])
        return tuple(map(self._value, values))

    def _value(self, value: str) -> str:
        shared_value = self._label_values.get(value)
        if shared_value is None:
            shared_value = self._label_values[value] = _checked_value(value)
        return shared_value

    def _shared_taints(self, taints: Iterable[_Taint]) -> tuple[Taint, ...]:
        repelling = []
        for taint in taints:
            if taint.effect in _REPELLING:
                value = taint.value or ""
                repelling.append(Taint(taint.key, value, taint.effect))
        kept = tuple(repelling)
        return self._taints.setdefault(kept, kept)

    def _allocatable(self, quantities: Quantities) -> Requests:
        if not quantities:
            return NOTHING
        written = tuple(quantities.items())
        resources = self._resources.get(written)
        if resources is None:
            resources = self._resources[written] = _amounts("status.allocatable", quantities)
        return resources

    def _kept(self, texts: Mapping[str, str] | None) -> Mapping[str, str]:
        if not texts:
            return _NO_METADATA
        pairs = []
        for key, text in texts.items():
            if key.startswith(_KEPT_PREFIXES):
                pairs.append((key, text))
        if not pairs:
            return _NO_METADATA
        return _shared(self._metadata, tuple(pairs))

    def _wanted(self, spec: _PodSpec) -> Mapping[str, Any]:
        fields = {
            "nodeSelector": spec.node_selector,
            "affinity": spec.affinity,
            "tolerations": spec.tolerations,
            "topologySpreadConstraints": spec.topology_spread_constraints,
            "schedulingGroup": spec.scheduling_group,
        }
        wants = {}
        for name, value in fields.items():
            if value is not None:
                wants[name] = value

        content = msgspec.json.encode(wants)
        return self._wants.setdefault(content, wants)

    def _owner(self, references: Sequence[_OwnerReference] | None) -> Owner | None:
        for reference in references or ():
            if reference.controller:
                key = reference.api_version, reference.kind, reference.name
                owner = self._owners.get(key)
                if owner is None:
                    owner = self._owners[key] = Owner(*key)
                return owner
        return None


def _ports_of(ports: Iterable[_Port], *, on_host: bool) -> Iterator[HostPort]:
    for port in ports:
        number = port.host_port
        if on_host and not number:
            number = port.container_port
        if number:
            protocol = port.protocol or "TCP"
            yield HostPort(number, protocol, port.host_ip or ANY_ADDRESS)


_NO_METADATA: Final[Mapping[str, str]] = {}


def _shared(kept: dict[_Pairs[_T], Mapping[str, _T]], pairs: _Pairs[_T]) -> Mapping[str, _T]:
    mapping = kept.get(pairs)
    if mapping is None:
        mapping = kept[pairs] = dict(pairs)
    return mapping


def _is_true(kind: str, conditions: Iterable[_Condition] | None) -> bool:
    for condition in conditions or ():
        if condition.type == kind:
            return condition.status == "True"
    return False


def _why_waiting(conditions: Iterable[_Condition] | None) -> str:
    """Why a pod's scheduler has not placed it, in its words; empty: it has not tried yet."""
    for condition in conditions or ():
        if condition.type == "PodScheduled" and condition.status != "True":
            return bounded(condition.message)
    return ""


def published(api_version: str, kind: str, read: Callable[[type[Any]], Any]) -> PublishedTopology:
    """One topology resource of a scheduler. Raises as `Decoder.node` does."""
    resource: _Published = read(_Published)
    name = resource.metadata.name
    checked_names(name=name)
    levels = []
    if resource.spec:
        for level in resource.spec.levels or ():
            key = level.key or level.node_label
            levels.append(Level(level.domain, key))

    return PublishedTopology(
        api_version=api_version,
        kind=kind,
        name=name,
        levels=tuple(levels),
        document=read(dict),
    )


def profiles(
    plugins: Iterable[Plugin], read: Callable[[type[Any]], Any]
) -> SchedulerProfiles | None:
    """The scheduler profiles that one of these operators is configured with, in a ConfigMap.

    None where the ConfigMap holds no readable configuration.
    """
    data = read(dict).get("data")
    if not isinstance(data, dict):
        return None

    for text in data.values():
        for plugin in plugins:
            profiles_of_plugin = _profiles_in(plugin, text)
            if profiles_of_plugin:
                return profiles_of_plugin
    return None


def _profiles_in(plugin: Plugin, text: Any) -> SchedulerProfiles | None:
    kind = plugin.configuration.kind if plugin.configuration else ""
    if not kind or not isinstance(text, str) or kind not in text:
        return None
    try:
        values = load(text.encode())
    except YamlSyntaxError:
        return None
    if not isinstance(values, dict) or values.get("kind") != kind:
        return None

    part = plugin.part(PluginPart.PLACEMENT)
    if part is None:
        return None
    configured: SchedulerProfiles | None = part.PLACEMENT.profiles(values)
    return configured


def configured_objects(
    keys: Collection[tuple[str, str]], read: Callable[[type[Any]], Any]
) -> list[dict[str, Any]]:
    """The configurations of these groups and kinds in a ConfigMap, named like it."""
    config_map = read(dict)
    data = config_map.get("data")
    if not isinstance(data, dict):
        return []
    objects = []
    for text in data.values():
        if not isinstance(text, str) or not any(kind in text for _, kind in keys):
            continue
        try:
            values = load(text.encode())
        except YamlSyntaxError:
            continue
        if kind_of(values) in keys:
            objects.append({**values, "metadata": config_map.get("metadata")})
    return objects


def only(configurations: Iterable[SchedulerProfiles | None]) -> SchedulerProfiles | None:
    """The configuration that all of them agree on, if any.

    There may be several, because an earlier release leaves its own behind.
    """
    distinct = set(filter(None, configurations))
    if len(distinct) != 1:
        return None
    return distinct.pop()
