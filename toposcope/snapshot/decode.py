"""Objects of the Kubernetes API, decoded down to what a snapshot keeps, from JSON text or from YAML's values.

A Node of 27 kB becomes some 600 bytes: what repeats from node to node (label keys, values, resource lists,
conditions) is kept once.

A ClusterTopology as it stands in a file or an answer of the API server.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeVar

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.api.cluster_topology import read as read_topology
from toposcope.api.label_keys import MATRIX, STATE
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.kai.pod_group import GROUP_OF
from toposcope.kube.pod_resources import ContainerRequests, Requests, amounts, pod_requests
from toposcope.snapshot.model import NOTHING, NodeView, Owner, PodView, Published
from toposcope.topology.hardware import State
from toposcope.topology.levels import Level


def topology_of(document: Any) -> Topology:
    """One ClusterTopology. Raises ValueError for an object that the CRD would have refused."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        why = "a ClusterTopology needs metadata.name, a text; kubectl apply --dry-run=server tells the rest"
        raise ValueError(why)  # noqa: TRY004 - what is wrong is the document, not a caller
    return read_topology(document)


Raw = bytes | memoryview | msgspec.Raw
Quantities = dict[str, str | int | float] | None
KeepMatrix = Callable[[str, bool], bool]
"""Whether to keep the matrix annotation of the node of this name; True says that its agent finds it not ok."""

FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod no longer holds anything of its node."""

"""Annotation of a pod: the PodGroup of KAI's that it is of, in the same namespace."""

_SAYING: Final = (
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
)
"""Prefixes of pod labels and annotations that are kept: they say which group a pod is of, and where it wants to be."""

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


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a pod's spec that says what it takes, also for templates of pods that are not there yet."""

    node_name: str | None = None
    scheduler_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Quantities = None
    resources: _Resources | None = None


class _Wants(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    node_selector: dict[str, Any] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: list[Any] | None = None


class _WantingPod(msgspec.Struct, frozen=True, gc=False):
    spec: _Wants | None = None


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
    spec: PodSpec | None = None
    status: _PodStatus | None = None


class _ListedNode(_Node, frozen=True, gc=False, tag_field="kind", tag="Node", kw_only=True):
    api_version: Literal["v1"] = msgspec.field(name="apiVersion")


class _ListedSpec(PodSpec, frozen=True, gc=False, rename="camel"):
    node_selector: dict[str, Any] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: list[Any] | None = None


class _ListedPod(_Pod, frozen=True, gc=False, tag_field="kind", tag="Pod", kw_only=True):
    api_version: Literal["v1"] = msgspec.field(name="apiVersion")
    spec: _ListedSpec | None = None


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


def requests_of(spec: PodSpec) -> dict[str, int]:
    """What a pod with this spec takes of a node. Raises ValueError that names the field and the resource."""
    return pod_requests(
        [_container(f"spec.containers[{i}]", each) for i, each in enumerate(spec.containers or ())],
        [
            ContainerRequests(_container(f"spec.initContainers[{i}]", each), each.restart_policy == "Always")
            for i, each in enumerate(spec.init_containers or ())
        ],
        _amounts("spec.overhead", spec.overhead) if spec.overhead else None,
        _asked("spec.resources", spec.resources) if spec.resources else None,
    )


def _container(at: str, container: _Container) -> Requests:
    return _asked(f"{at}.resources", container.resources) if container.resources else NOTHING


def _asked(at: str, resources: _Resources) -> Requests:
    """Requests; a limit stands for the request that is not there, as the API server fills it in."""
    asked = _amounts(f"{at}.requests", resources.requests)
    if resources.limits:
        limits = _amounts(f"{at}.limits", resources.limits)
        return limits | asked
    return asked


def _amounts(at: str, quantities: Quantities) -> dict[str, int]:
    try:
        return amounts(quantities)
    except ValueError as error:
        raise ValueError(f"{at}: {error}") from None


def troubled(_name: str, not_ok: bool) -> bool:
    """Keep the matrix of nodes that are not well, for the reasons in it: one of 100,000 matrices in full is 250 MB."""
    return not_ok


def every(_name: str, _not_ok: bool) -> bool:
    """Keep every matrix, to be saved."""
    return True


class Decoder:
    """Turns objects into facts and shares every part that repeats. Not for several threads at once."""

    def __init__(self, keep_matrix: KeepMatrix = troubled) -> None:
        self._keep_matrix = keep_matrix
        self._strings: dict[str, str] = {}
        self._matrices: dict[str, str] = {}
        self._places: dict[tuple[str, ...], Mapping[str, int]] = {}
        self._resources: dict[tuple[tuple[str, str | int | float], ...], Requests] = {}
        self._conditions: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._taints: dict[tuple[Taint, ...], tuple[Taint, ...]] = {}
        self._wants: dict[bytes, Mapping[str, Any]] = {}
        self._owners: dict[tuple[str, str, str], Owner] = {}
        self._pod_requests: dict[tuple[tuple[str, int], ...], Requests] = {}
        self._sayings: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def node(self, read: Callable[[type[Any]], Any]) -> NodeView:
        """One Node; `read` decodes the object to the type that it is given.

        Raises msgspec.ValidationError (with the path of the field) or ValueError for what is no Node.
        """
        return self._node(read(_Node))

    def pod(self, read: Callable[[type[Any]], Any]) -> PodView | None:
        """One Pod, None for one that has finished. Raises as `node` does."""
        return self._pod(read(_Pod), lambda: read(_WantingPod).spec)

    def listed(self, text: Raw) -> tuple[list[NodeView], list[PodView | None]]:
        """The Nodes and Pods of a JSON list of nothing else; None for each Pod that has finished.

        Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError or ValueError where anything is not as it
        should be.
        """
        nodes: list[NodeView] = []
        pods: list[PodView | None] = []
        for item in _LISTED.decode(text):
            if isinstance(item, _ListedNode):
                nodes.append(self._node(item))
            else:
                pods.append(self._pod(item, partial(_wants_of, item.spec)))
        return nodes, pods

    def _node(self, found: _Node) -> NodeView:
        spec, status = found.spec or _NodeSpec(), found.status or _NodeStatus()
        labels = found.metadata.labels or {}
        name = found.metadata.name
        share = self._strings.setdefault
        keys = tuple(sorted(labels))
        places = self._places.get(keys)
        if places is None:
            places = self._places[keys] = {share(key, key): i for i, key in enumerate(keys)}
        conditions = status.conditions or ()
        state = labels.get(STATE)
        matrix = (found.metadata.annotations or {}).get(MATRIX)
        if matrix is not None and not self._keep_matrix(name, state is not None and state != State.OK):
            matrix = None
        return NodeView(
            name=name,
            uid=found.metadata.uid,
            places=places,
            values=self._values(name, [labels[key] for key in keys]),
            ready=any(condition.type == "Ready" and condition.status == "True" for condition in conditions),
            schedulable=not spec.unschedulable,
            taints=self._tainted(spec.taints) if spec.taints else (),
            allocatable=self._allocatable(status.allocatable),
            conditions=self._shared(self._conditions, tuple([(share(c.type, c.type), c.status) for c in conditions])),
            matrix=self._matrices.setdefault(matrix, matrix) if matrix else matrix,
        )

    def _pod(self, found: _Pod, wants: Callable[[], _Wants | None]) -> PodView | None:
        spec, status = found.spec or PodSpec(), found.status or _PodStatus()
        if status.phase in FINISHED:
            return None
        share = self._strings.setdefault
        asked = requests_of(spec)
        meta = found.metadata
        annotations = self._saying(meta.annotations)
        return PodView(
            namespace=share(meta.namespace, meta.namespace),
            name=meta.name,
            node=share(spec.node_name, spec.node_name) if spec.node_name else "",
            phase=share(status.phase, status.phase),
            requests=self._shared(self._pod_requests, tuple(asked.items())) if asked else NOTHING,
            owner=self._owner(meta.owner_references or ()),
            labels=self._saying(meta.labels),
            annotations=annotations,
            scheduler=share(spec.scheduler_name or "", spec.scheduler_name or ""),
            waiting="" if spec.node_name else _waiting(status.conditions or ()),
            wants=self._wanted(wants()) if GROUP_OF in annotations else NOTHING,
        )

    def _values(self, name: str, values: list[str]) -> tuple[str, ...]:
        """Label values of a node, shared with others, but for its own name: that would only fill the table."""
        share = self._strings.setdefault
        if name in values:
            return tuple([name if value == name else share(value, value) for value in values])
        return tuple(map(share, values, values))

    def _tainted(self, taints: Iterable[_Taint]) -> tuple[Taint, ...]:
        found = tuple(Taint(t.key, t.value or "", t.effect) for t in taints if t.effect in ("NoSchedule", "NoExecute"))
        return self._taints.setdefault(found, found)

    def _allocatable(self, quantities: Quantities) -> Requests:
        if not quantities:
            return NOTHING
        written = tuple(quantities.items())
        found = self._resources.get(written)
        if found is None:
            try:
                found = self._resources[written] = amounts(quantities)
            except ValueError as error:
                raise ValueError(f"status.allocatable: {error}") from None
        return found

    def _shared(
        self, kept: dict[tuple[tuple[str, _T], ...], Mapping[str, _T]], pairs: tuple[tuple[str, _T], ...]
    ) -> Mapping[str, _T]:
        found = kept.get(pairs)
        if found is None:
            found = kept[pairs] = dict(pairs)
        return found

    def _saying(self, texts: Mapping[str, str] | None) -> Mapping[str, str]:
        pairs = tuple([pair for pair in texts.items() if pair[0].startswith(_SAYING)]) if texts else ()
        return self._shared(self._sayings, pairs) if pairs else _SILENT

    def _wanted(self, wants: _Wants | None) -> Mapping[str, Any]:
        written = msgspec.json.encode(wants)
        found = self._wants.get(written)
        if found is None:
            found = self._wants[written] = msgspec.json.decode(written) or {}
        return found

    def _owner(self, references: Sequence[_OwnerReference]) -> Owner | None:
        reference = next((each for each in references if each.controller), None)
        if reference is None:
            return None
        key = (reference.api_version, reference.kind, reference.name)
        found = self._owners.get(key)
        if found is None:
            found = self._owners[key] = Owner(*key)
        return found


_SILENT: Final[Mapping[str, str]] = {}


def _wants_of(spec: _ListedSpec | None) -> _Wants | None:
    return _Wants(spec.node_selector, spec.affinity, spec.tolerations) if spec else None


def _waiting(conditions: Iterable[_Condition]) -> str:
    return next((c.message for c in conditions if c.type == "PodScheduled" and c.status != "True"), "")


def published(api_version: str, kind: str, read: Callable[[type[Any]], Any]) -> Published:
    """One topology resource of a scheduler. Raises as `Decoder.node` does."""
    found: _Published = read(_Published)
    levels = (found.spec.levels if found.spec else None) or ()
    return Published(
        api_version,
        kind,
        found.metadata.name,
        tuple(Level(level.domain, level.key or level.node_label) for level in levels),
        read(dict),
    )
