"""Kubernetes objects, decoded down to what a snapshot keeps, from JSON text or from parsed YAML.

A Node of 27 kB becomes some 600 bytes: whatever repeats from node to node (label keys, values,
resource lists, conditions) is kept once.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.api.cluster_topology import read as read_topology
from toposcope.api.label_keys import MATRIX, STATE
from toposcope.api.label_values import MAX_VALUE, is_harmless_value, is_name
from toposcope.api.levels import Level
from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.hardware.topology import State
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.grove.schedulers import profiles_of
from toposcope.integrations.kai.api import GROUP_OF
from toposcope.integrations.volcano import api as volcano
from toposcope.kube.pod_resources import (
    MOST,
    ContainerRequests,
    Requests,
    amounts,
    gpu_count,
    pod_requests,
)
from toposcope.snapshot.model import NOTHING, NodeView, Owner, PodView, Published
from toposcope.text import bounded, listing


def checked_names(**names: str) -> None:
    """Raise ValueError, with the path of the field, for metadata that the API server would refuse."""
    for field, name in names.items():
        if not is_name(name):
            raise ValueError(f"{name!r} {_NO_NAME} - at `$.metadata.{field}`")


_NO_NAME: Final = (
    "cannot be a name: those are of lower-case letters, digits, '-' and '.', up to 253 of them"
)


def _checked_keys(keys: Sequence[str]) -> None:
    """Raise ValueError for control characters and the like.

    Others that no label key can have do no harm.
    """
    if not all(map(str.isprintable, keys)):
        bad = next(key for key in keys if not key.isprintable())
        raise ValueError(f"{bad[:_SHOWN]!r} cannot be in a label - at `$.metadata.labels`")


def _checked_value(value: str) -> str:
    """The value of a label.

    Raises ValueError for one that may mean something in another system's file or a shell.

    Letters beyond ASCII, and signs at its ends, which no label has either, do no harm.
    """
    if not is_harmless_value(value):
        raise ValueError(f"{value[:_SHOWN]!r} {_NO_VALUE} - at `$.metadata.labels`")
    return value


_SHOWN: Final = 80
_NO_VALUE: Final = (
    f"cannot be the value of a label: those are of letters, digits, '-', '_' and '.', up to {MAX_VALUE} of them, and "
    "begin and end with a letter or digit"
)


def topology_of(document: Any) -> Topology:
    """One ClusterTopology. Raises ValueError for an object that the CRD would have rejected."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        why = "a ClusterTopology needs metadata.name, a string; kubectl apply --dry-run=server shows other problems"
        raise ValueError(why)  # noqa: TRY004 - the document is wrong, not a caller
    checked_names(name=metadata["name"])
    return read_topology(document)


Raw = bytes | memoryview | msgspec.Raw
Quantities = dict[str, str | int | float] | None
KeepMatrix = Callable[[str, bool], bool]
"""Whether to keep the matrix annotation of the node of this name; the flag says that its state is not ok."""

_MOST_NAMED: Final = 3
FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod no longer uses anything of its node."""

_KEPT_PREFIXES: Final = (
    "kai.scheduler/",
    "kueue.x-k8s.io/",
    "grove.io/",
    "leaderworkerset.sigs.k8s.io/",
    "jobset.sigs.k8s.io/",
    "scheduling.run.ai/",
    "runai/",
    "run.ai/",
    "nvidia.com/",
    "osmo.",
    GROUP_OF,
    volcano.GROUP_OF,
)
"""Of pod labels and annotations that are kept: they name the group of a pod, and ask for a placement."""

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
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    message: str = ""


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


class _Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resources: _Resources | None = None
    restart_policy: str | None = None


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


class _PodStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""
    conditions: list[_Condition] | None = None


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


def _requests_of(spec: _PodSpec) -> dict[str, int]:
    """What a pod with this spec requests.

    Raises ValueError that names the field and the resource.
    """
    return pod_requests(
        [
            _container(f"spec.containers[{i}]", container)
            for i, container in enumerate(spec.containers or ())
        ],
        [
            ContainerRequests(
                _container(f"spec.initContainers[{i}]", container),
                container.restart_policy == "Always",
            )
            for i, container in enumerate(spec.init_containers or ())
        ],
        _amounts("spec.overhead", spec.overhead) if spec.overhead else None,
        _with_limits("spec.resources", spec.resources) if spec.resources else None,
    )


def _container(at: str, container: _Container) -> Requests:
    return _with_limits(f"{at}.resources", container.resources) if container.resources else NOTHING


def _with_limits(at: str, resources: _Resources) -> Requests:
    """Requests; a limit counts where the request is missing, as the API server fills it in."""
    requests = _amounts(f"{at}.requests", resources.requests)
    return _amounts(f"{at}.limits", resources.limits) | requests if resources.limits else requests


def _amounts(at: str, quantities: Quantities) -> dict[str, int]:
    try:
        return amounts(quantities)
    except ValueError as error:
        raise ValueError(f"{at}: {error}") from None


def degraded(_name: str, not_ok: bool) -> bool:
    """Keep the matrices of nodes that are not ok, for the reasons in them: all of 100,000 nodes would be 250 MB."""
    return not_ok


def every(_name: str, _not_ok: bool) -> bool:
    """Keep every matrix."""
    return True


@contextmanager
def paused_gc() -> Iterator[None]:
    """Without the cyclic garbage collector: it would scan every object of a growing heap again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Decoder:
    """Turns objects into views that share every part that repeats. Not thread-safe."""

    def __init__(self, keep_matrix: KeepMatrix = degraded) -> None:
        self._keep_matrix = keep_matrix
        self._strings: dict[str, str] = {}
        self._label_values: dict[str, str] = {}
        self._matrices: dict[str, str] = {}
        self._places: dict[tuple[str, ...], Mapping[str, int]] = {}
        self._resources: dict[tuple[tuple[str, str | int | float], ...], Requests] = {}
        self._conditions: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._taints: dict[tuple[Taint, ...], tuple[Taint, ...]] = {}
        self._wants: dict[bytes, Mapping[str, Any]] = {}
        self._owners: dict[tuple[str, str, str], Owner] = {}
        self._pod_requests: dict[tuple[tuple[str, int], ...], Requests] = {}
        self._metadata: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._capped: list[str] = []
        """What has an amount that counts as `MOST`."""

    def warnings(self) -> list[str]:
        """What was not taken as it was written."""
        if not self._capped:
            return []
        names = listing(self._capped, _MOST_NAMED)
        return [
            f"{names}: an amount there is larger than Kubernetes counts, and counts as {MOST}; correct it"
        ]

    def node(self, read: Callable[[type[Any]], Any]) -> NodeView:
        """One Node; `read` decodes the object to the type that it is given.

        Raises msgspec.ValidationError (with the path of the field) or ValueError for an object that
        is not a Node.
        """
        return self._node(read(_Node))

    def pod(self, read: Callable[[type[Any]], Any]) -> PodView | None:
        """One Pod, None for one that has finished. Raises as `node` does."""
        return self._pod(read(_Pod))

    def listed(self, text: Raw) -> tuple[list[NodeView], list[PodView | None]]:
        """The Nodes and Pods of a JSON list of nothing else; None for each Pod that has finished.

        Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError or ValueError where anything
        is wrong.
        """
        items = _LISTED.decode(text)
        nodes = [self._node(item) for item in items if isinstance(item, _ListedNode)]
        return nodes, [self._pod(item) for item in items if isinstance(item, _ListedPod)]

    def _node(self, node: _Node) -> NodeView:
        spec, status = node.spec or _NodeSpec(), node.status or _NodeStatus()
        labels = node.metadata.labels or {}
        name = node.metadata.name
        checked_names(name=name)
        allocatable = self._allocatable(status.allocatable)
        if MOST in allocatable.values():
            self._capped.append(f"node {name}")
        share = self._strings.setdefault
        keys = tuple(sorted(labels))
        places = self._places.get(keys)
        if places is None:
            _checked_keys(keys)
            places = self._places[keys] = {share(key, key): i for i, key in enumerate(keys)}
        conditions = status.conditions or ()
        state = labels.get(STATE)
        matrix = (node.metadata.annotations or {}).get(MATRIX)
        if matrix is not None and not self._keep_matrix(
            name, state is not None and state != State.OK
        ):
            matrix = None
        return NodeView(
            name=name,
            uid=node.metadata.uid,
            places=places,
            values=self._values(name, [labels[key] for key in keys]),
            ready=any(
                condition.type == "Ready" and condition.status == "True" for condition in conditions
            ),
            schedulable=not spec.unschedulable,
            taints=self._shared_taints(spec.taints) if spec.taints else (),
            allocatable=allocatable,
            conditions=_shared(
                self._conditions, tuple([(share(c.type, c.type), c.status) for c in conditions])
            ),
            matrix=self._matrices.setdefault(matrix, matrix) if matrix else matrix,
        )

    def _pod(self, pod: _Pod) -> PodView | None:
        spec, status = pod.spec or _PodSpec(), pod.status or _PodStatus()
        checked_names(name=pod.metadata.name, namespace=pod.metadata.namespace)
        if spec.node_name and not is_name(spec.node_name):
            raise ValueError(f"{spec.node_name!r} {_NO_NAME} - at `$.spec.nodeName`")
        if status.phase in FINISHED:
            return None
        share = self._strings.setdefault
        requests = _requests_of(spec)
        if MOST in requests.values():
            self._capped.append(f"pod {pod.metadata.namespace}/{pod.metadata.name}")
        annotations = self._kept(pod.metadata.annotations)
        scheduler = spec.scheduler_name or ""
        return PodView(
            namespace=share(pod.metadata.namespace, pod.metadata.namespace),
            name=pod.metadata.name,
            node=share(spec.node_name, spec.node_name) if spec.node_name else "",
            phase=share(status.phase, status.phase),
            requests=_shared(self._pod_requests, tuple(requests.items())) if requests else NOTHING,
            owner=self._owner(pod.metadata.owner_references or ()),
            labels=self._kept(pod.metadata.labels),
            annotations=annotations,
            scheduler=share(scheduler, scheduler),
            waiting="" if spec.node_name else _waiting(status.conditions or ()),
            wants=self._wanted(spec)
            if spec.scheduling_group or GROUP_OF in annotations or gpu_count(requests)
            else NOTHING,
            priority=spec.priority or 0,
        )

    def _values(self, name: str, values: list[str]) -> tuple[str, ...]:
        """Label values of a node, shared with others, but for its own name: that would only fill the table."""
        if name in values:
            return tuple([name if value == name else self._value(value) for value in values])
        return tuple(map(self._value, values))

    def _value(self, value: str) -> str:
        known = self._label_values.get(value)
        if known is None:
            known = self._label_values[value] = _checked_value(value)
        return known

    def _shared_taints(self, taints: Iterable[_Taint]) -> tuple[Taint, ...]:
        kept = tuple(
            Taint(t.key, t.value or "", t.effect)
            for t in taints
            if t.effect in ("NoSchedule", "NoExecute")
        )
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
        pairs = (
            tuple([pair for pair in texts.items() if pair[0].startswith(_KEPT_PREFIXES)])
            if texts
            else ()
        )
        return _shared(self._metadata, pairs) if pairs else _NO_METADATA

    def _wanted(self, spec: _PodSpec) -> Mapping[str, Any]:
        fields = {
            "nodeSelector": spec.node_selector,
            "affinity": spec.affinity,
            "tolerations": spec.tolerations,
            "schedulingGroup": spec.scheduling_group,
        }
        wants = {name: value for name, value in fields.items() if value is not None}
        return self._wants.setdefault(msgspec.json.encode(wants), wants)

    def _owner(self, references: Sequence[_OwnerReference]) -> Owner | None:
        for reference in references:
            if reference.controller:
                key = (reference.api_version, reference.kind, reference.name)
                return self._owners.get(key) or self._owners.setdefault(key, Owner(*key))
        return None


_NO_METADATA: Final[Mapping[str, str]] = {}


def _shared(
    kept: dict[tuple[tuple[str, _T], ...], Mapping[str, _T]], pairs: tuple[tuple[str, _T], ...]
) -> Mapping[str, _T]:
    mapping = kept.get(pairs)
    if mapping is None:
        mapping = kept[pairs] = dict(pairs)
    return mapping


def _waiting(conditions: Iterable[_Condition]) -> str:
    return bounded(
        next((c.message for c in conditions if c.type == "PodScheduled" and c.status != "True"), "")
    )


def published(api_version: str, kind: str, read: Callable[[type[Any]], Any]) -> Published:
    """One topology resource of a scheduler. Raises as `Decoder.node` does."""
    resource: _Published = read(_Published)
    checked_names(name=resource.metadata.name)
    levels = (resource.spec.levels if resource.spec else None) or ()
    path = tuple(Level(level.domain, level.key or level.node_label) for level in levels)
    return Published(api_version, kind, resource.metadata.name, path, read(dict))


OPERATOR: Final = {"labelSelector": "app.kubernetes.io/name=grove-operator"}
_KIND: Final = "OperatorConfiguration"


def configuration(read: Callable[[type[Any]], Any]) -> SchedulerProfiles | None:
    """The configuration in a ConfigMap; None where it holds none, or none that is readable."""
    data = read(dict).get("data")
    for text in data.values() if isinstance(data, dict) else ():
        if not isinstance(text, str) or _KIND not in text:
            continue
        try:
            values = load(text.encode())
        except YamlSyntaxError:
            continue
        if isinstance(values, dict) and values.get("kind") == _KIND:
            return profiles_of(values)
    return None


def only(configurations: Iterable[SchedulerProfiles | None]) -> SchedulerProfiles | None:
    """The one that all agree on; None where none is known: an earlier release leaves its own behind."""
    known = set(filter(None, configurations))
    return known.pop() if len(known) == 1 else None
