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
from toposcope.integrations.framework.plugin import Part, Plugin
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.registry import PLUGINS
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
    """Raise ValueError, with the path of the field, for names that the API server would refuse."""
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
    for key in keys:
        if not key.isprintable():
            raise ValueError(f"{key[:_SHOWN]!r} cannot be in a label - at `$.metadata.labels`")


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
    f"cannot be the value of a label: those are of letters, digits, '-', '_' and '.', "
    f"up to {MAX_VALUE} of them, and begin and end with a letter or digit"
)


def topology_of(document: Any) -> Topology:
    """One ClusterTopology. Raises ValueError for an object that the CRD would have rejected."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
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
"""Whether to keep the matrix annotation of the node of this name.

The flag says that its state is not ok.
"""

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


_KEPT_PREFIXES: Final = tuple(_kept_prefixes())
"""Of pod labels and annotations that are kept: they name a pod's group, and ask for a placement."""
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


def _requests_of(spec: _PodSpec) -> dict[str, int]:
    """What a pod with this spec requests.

    Raises ValueError that names the field and the resource.
    """
    containers = []
    for number, container in enumerate(spec.containers or ()):
        containers.append(_container(f"spec.containers[{number}]", container))

    init_containers = []
    for number, container in enumerate(spec.init_containers or ()):
        requests = _container(f"spec.initContainers[{number}]", container)
        stays = container.restart_policy == "Always"
        init_containers.append(ContainerRequests(requests, stays))

    return pod_requests(
        containers,
        init_containers,
        _amounts("spec.overhead", spec.overhead) if spec.overhead else None,
        _with_limits("spec.resources", spec.resources) if spec.resources else None,
    )


def _container(at: str, container: _Container) -> Requests:
    if not container.resources:
        return NOTHING
    return _with_limits(f"{at}.resources", container.resources)


def _with_limits(at: str, resources: _Resources) -> Requests:
    """Requests; a limit counts where the request is missing, as the API server fills it in."""
    requests = _amounts(f"{at}.requests", resources.requests)
    if not resources.limits:
        return requests

    return _amounts(f"{at}.limits", resources.limits) | requests


def _amounts(at: str, quantities: Quantities) -> dict[str, int]:
    try:
        return amounts(quantities)
    except ValueError as error:
        raise ValueError(f"{at}: {error}") from None


def degraded(_name: str, not_ok: bool) -> bool:
    """Keep the matrices of nodes that are not ok, for the reasons in them.

    Those of 100,000 nodes would be 250 MB.
    """
    return not_ok


def every(_name: str, _not_ok: bool) -> bool:
    """Keep every matrix."""
    return True


@contextmanager
def paused_gc() -> Iterator[None]:
    """Without the cyclic garbage collector, which would scan a growing heap again and again."""
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
        larger = f"{names}: an amount there is larger than Kubernetes counts"
        return [f"{larger}, and counts as {MOST}; correct it"]

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
        nodes, pods = [], []
        for item in _LISTED.decode(text):
            if isinstance(item, _ListedNode):
                nodes.append(self._node(item))
            else:
                pods.append(self._pod(item))

        return nodes, pods

    def _node(self, node: _Node) -> NodeView:
        spec, status = node.spec or _NodeSpec(), node.status or _NodeStatus()
        labels = node.metadata.labels or {}
        name = node.metadata.name
        checked_names(name=name)
        allocatable = self._allocatable(status.allocatable)
        if MOST in allocatable.values():
            self._capped.append(f"node {name}")

        keys = tuple(sorted(labels))
        places = self._places.get(keys)
        if places is None:
            places = self._places[keys] = self._new_places(keys)

        conditions, ready = self._node_conditions(status.conditions or ())
        return NodeView(
            name=name,
            uid=node.metadata.uid,
            places=places,
            values=self._values(name, [labels[key] for key in keys]),
            ready=ready,
            schedulable=not spec.unschedulable,
            taints=self._shared_taints(spec.taints) if spec.taints else (),
            allocatable=allocatable,
            conditions=conditions,
            matrix=self._matrix(name, labels.get(STATE), node.metadata.annotations),
        )

    def _new_places(self, keys: Sequence[str]) -> dict[str, int]:
        """The position of each label key."""
        _checked_keys(keys)
        places: dict[str, int] = {}
        for key in keys:
            places[self._strings.setdefault(key, key)] = len(places)

        return places

    def _node_conditions(self, conditions: Iterable[_Condition]) -> tuple[Mapping[str, str], bool]:
        """The conditions of a node, and whether it is Ready."""
        share = self._strings.setdefault
        ready = False
        pairs = []

        for condition in conditions:
            pairs.append((share(condition.type, condition.type), condition.status))
            if condition.type == "Ready" and condition.status == "True":
                ready = True

        return _shared(self._conditions, tuple(pairs)), ready

    def _matrix(
        self, name: str, state: str | None, annotations: Mapping[str, str] | None
    ) -> str | None:
        """The link matrix of a node, if it is wanted."""
        matrix = annotations.get(MATRIX) if annotations else None
        if matrix is None:
            return None

        not_ok = state is not None and state != State.OK
        if not self._keep_matrix(name, not_ok):
            return None

        return self._matrices.setdefault(matrix, matrix)

    def _pod(self, pod: _Pod) -> PodView | None:
        spec, status = pod.spec or _NO_POD_SPEC, pod.status or _NO_POD_STATUS
        meta, node = pod.metadata, spec.node_name or ""
        checked_names(name=meta.name, namespace=meta.namespace)
        if node and not is_name(node):
            raise ValueError(f"{node!r} {_NO_NAME} - at `$.spec.nodeName`")
        if status.phase in FINISHED:
            return None

        annotations = self._kept(meta.annotations)
        requests = self._requested(spec, meta)
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
            waiting="" if node else _waiting(status.conditions),
            wants=wants,
            priority=spec.priority or 0,
        )

    def _requested(self, spec: _PodSpec, meta: _PodMeta) -> Requests:
        requests = _requests_of(spec)
        if MOST in requests.values():
            self._capped.append(f"pod {meta.namespace}/{meta.name}")
        return _shared(self._pod_requests, tuple(requests.items())) if requests else NOTHING

    def _share(self, text: str | None) -> str:
        """The same text, once in memory."""
        return self._strings.setdefault(text, text) if text else ""

    @staticmethod
    def _places_matter(spec: _PodSpec, annotations: Mapping[str, str], requests: Requests) -> bool:
        """Whether what a pod says about nodes is kept: it has GPUs, or belongs to a gang."""
        if spec.scheduling_group or gpu_count(requests):
            return True

        return not _PLACING.isdisjoint(annotations)

    def _values(self, name: str, values: list[str]) -> tuple[str, ...]:
        """Label values of a node, shared with others.

        But for its own name: that would only fill the table.
        """
        if name in values:
            return tuple([name if value == name else self._value(value) for value in values])

        return tuple(map(self._value, values))

    def _value(self, value: str) -> str:
        known = self._label_values.get(value)
        if known is None:
            known = self._label_values[value] = _checked_value(value)

        return known

    def _shared_taints(self, taints: Iterable[_Taint]) -> tuple[Taint, ...]:
        repelling = []
        for taint in taints:
            if taint.effect in _REPELLING:
                repelling.append(Taint(taint.key, taint.value or "", taint.effect))

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

        pairs = tuple([pair for pair in texts.items() if pair[0].startswith(_KEPT_PREFIXES)])
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

    def _owner(self, references: Sequence[_OwnerReference] | None) -> Owner | None:
        for reference in references or ():
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


def _waiting(conditions: Iterable[_Condition] | None) -> str:
    for condition in conditions or ():
        if condition.type == "PodScheduled" and condition.status != "True":
            return bounded(condition.message)

    return ""


def published(api_version: str, kind: str, read: Callable[[type[Any]], Any]) -> Published:
    """One topology resource of a scheduler. Raises as `Decoder.node` does."""
    resource: _Published = read(_Published)
    checked_names(name=resource.metadata.name)
    levels: Sequence[_Level] = ()
    if resource.spec and resource.spec.levels:
        levels = resource.spec.levels

    path = [Level(level.domain, level.key or level.node_label) for level in levels]
    return Published(
        api_version=api_version,
        kind=kind,
        name=resource.metadata.name,
        levels=tuple(path),
        document=read(dict),
    )


def profiles(
    plugins: Iterable[Plugin], read: Callable[[type[Any]], Any]
) -> SchedulerProfiles | None:
    """What the configuration of one of these operators says, in a ConfigMap.

    None where it holds none, or none that is readable.
    """
    data = read(dict).get("data")
    if not isinstance(data, dict):
        return None

    for text in data.values():
        for plugin in plugins:
            found = _profiles_in(plugin, text)
            if found:
                return found

    return None


def _profiles_in(plugin: Plugin, text: Any) -> SchedulerProfiles | None:
    kind = plugin.configuration.kind if plugin.configuration else ""
    if not kind or not isinstance(text, str) or kind not in text:
        return None

    try:
        values = load(text.encode())
    except YamlSyntaxError:
        return None

    part = plugin.part(Part.PLACEMENT)
    if part is None or not isinstance(values, dict) or values.get("kind") != kind:
        return None

    found: SchedulerProfiles | None = part.PLACEMENT.profiles(values)
    return found


def only(configurations: Iterable[SchedulerProfiles | None]) -> SchedulerProfiles | None:
    """The one that all agree on.

    None where none is known: an earlier release leaves its own behind.
    """
    known = set(filter(None, configurations))
    return known.pop() if len(known) == 1 else None
