"""Which resources exist: one table for the built-in ones, the same record for those that CRDs add."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.schema import ANY, Schema, compile_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def _struct(**properties: Any) -> dict[str, Any]:
    """Describe only the fields whose merge rules matter; the rest is kept as it comes."""
    return {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}


def _keyed(*keys: str) -> dict[str, Any]:
    """List whose items are known by the given fields (`+listType=map`)."""
    items = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }


_SET = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
_ATOMIC_MAP = {**_struct(), "x-kubernetes-map-type": "atomic"}

OBJECT_META = {
    "type": "object",
    "properties": {
        **{
            name: {"type": "string", "nullable": True}
            for name in (
                *("name", "namespace", "generateName", "uid", "resourceVersion", "selfLink"),
                *("creationTimestamp", "deletionTimestamp"),
            )
        },
        "deletionGracePeriodSeconds": {"type": "integer"},
        "generation": {"type": "integer"},
        "labels": _MAP,
        "annotations": _MAP,
        "finalizers": _SET,
        "ownerReferences": _keyed("uid"),
        "managedFields": {"type": "array", "items": _struct()},
    },
}


def object_schema(spec: Mapping[str, Any]) -> Schema:
    """Schema of a whole object from the schema of its own fields."""
    types = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": OBJECT_META}
    return compile_schema({**spec, "type": "object", "properties": {**spec.get("properties", {}), **types}})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`: `path` is the JSONPath of a CRD's printer column."""

    name: str
    type: str
    path: str
    wide: bool = False
    description: str = ""


NAME = Column("Name", "string", ".metadata.name", description="Name must be unique within a namespace.")
AGE = Column("Age", "date", ".metadata.creationTimestamp", description="Time since the object was created.")


@dataclass(frozen=True)
class Resource:
    """One kind in one version: its names, its rules, and where its objects are stored."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    # An endpoint of its own for `status`, which the main endpoint then leaves alone.
    status: bool = False
    # CRDs only: schema-checked, pruned, counted in `metadata.generation`, listed with their type.
    custom: bool = False
    schema: Schema = ANY
    columns: tuple[Column, ...] | None = None
    # What Go's zero values add to an object of this kind.
    zero: Mapping[str, Any] = field(default_factory=dict)
    selectable: tuple[str, ...] = ()
    # Two API groups can show the same objects: then the storage has one name, and fields are renamed.
    stored_as: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def group_version(self) -> str:
        """`v1`, `coordination.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def storage(self) -> str:
        """Name of the collection that holds the objects, the same for all versions."""
        return self.stored_as or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @cached_property
    def type_prefix(self) -> bytes:
        """Opening bytes of every object: `{"kind":"Node","apiVersion":"v1",`."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.group_version}",'.encode()

    @cached_property
    def path(self) -> str:
        """Root of the group and version: `/api/v1`, `/apis/<group>/<version>`."""
        return f"/apis/{self.group_version}" if self.group else f"/api/{self.version}"


_INFO = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
_NODE_INFO = dict.fromkeys((*_INFO, "kubeProxyVersion", "operatingSystem", "architecture"), "")
_NODE_STATUS = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NODE_INFO}
_NODE = _struct(
    spec=_struct(podCIDRs=_SET, taints={"type": "array"}),
    status=_struct(
        **{name: _keyed("type") for name in ("addresses", "conditions")},
        **{name: _struct() for name in ("capacity", "allocatable", "nodeInfo")},
        daemonEndpoints=_struct(kubeletEndpoint=_struct()),
    ),
)
_POD = _struct(
    spec=_struct(
        **{name: _keyed("name") for name in ("containers", "initContainers", "volumes")}, nodeSelector=_ATOMIC_MAP
    ),
    status=_struct(conditions=_keyed("type")),
)
_POD_FIELDS = ("spec.nodeName", "spec.schedulerName", "spec.serviceAccountName", "status.phase")
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = ("type", "reason", "source", "reportingComponent", *(f"involvedObject.{name}" for name in _INVOLVED))
_EVENT_TIMES = dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime"))
_NEW_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    **{
        f"deprecated{name[0].upper()}{name[1:]}": name
        for name in ("source", "firstTimestamp", "lastTimestamp", "count")
    },
}


def _built_in(group: str, plural: str, kind: str, schema: Mapping[str, Any] | None = None, **rest: Any) -> Resource:
    """Describe a built-in kind, whose only version is v1."""
    return Resource(group, "v1", plural, kind, schema=object_schema(schema or _struct()), **rest)


CRDS = _built_in(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    _struct(spec=_struct(names=_struct()), status=_struct(conditions=_keyed("type"))),
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    status=True,
    columns=(Column("Created At", "date", ".metadata.creationTimestamp"),),
    zero={"spec": {"names": {}}, "status": {}},
)
_NAMESPACE = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
_ALL = ("all",)
_LEASE_COLUMNS = (Column("Holder", "string", ".spec.holderIdentity"), AGE)

BUILT_IN = (
    _built_in(
        *("", "nodes", "Node", _NODE),
        short_names=("no",),
        status=True,
        zero={"spec": {}, "status": _NODE_STATUS},
        selectable=("spec.unschedulable",),
    ),
    _built_in(
        *("", "namespaces", "Namespace"),
        short_names=("ns",),
        status=True,
        zero=_NAMESPACE,
        selectable=("status.phase",),
    ),
    _built_in(
        *("", "pods", "Pod", _POD),
        namespaced=True,
        short_names=("po",),
        categories=_ALL,
        status=True,
        zero={"spec": {}, "status": {"phase": "Pending"}},
        selectable=_POD_FIELDS,
    ),
    _built_in("", "services", "Service", namespaced=True, short_names=("svc",), categories=_ALL, status=True),
    _built_in("", "configmaps", "ConfigMap", namespaced=True, short_names=("cm",)),
    _built_in("", "serviceaccounts", "ServiceAccount", namespaced=True, short_names=("sa",)),
    _built_in(
        *("", "events", "Event"),
        namespaced=True,
        short_names=("ev",),
        zero={"reportingComponent": "", "reportingInstance": "", "source": {}, **_EVENT_TIMES},
        selectable=_EVENT_FIELDS,
    ),
    _built_in(
        *("events.k8s.io", "events", "Event"),
        namespaced=True,
        short_names=("ev",),
        stored_as="events",
        renamed=_NEW_EVENT_NAMES,
        selectable=_EVENT_FIELDS,
    ),
    _built_in(
        *("coordination.k8s.io", "leases", "Lease", _struct(spec=_struct())),
        namespaced=True,
        zero={"spec": {}},
        columns=_LEASE_COLUMNS,
    ),
    CRDS,
)
