"""Which resources exist: one table for the built-in ones, the same record for those that CRDs add."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simulator.apiserver.schema import Schema, compile_schema

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
    schema: Schema = field(default_factory=lambda: object_schema(_struct()))
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


_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = ("type", "reason", "source", "reportingComponent", *(f"involvedObject.{name}" for name in _INVOLVED))

CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    singular="customresourcedefinition",
    status=True,
    schema=object_schema(_struct(status=_struct(conditions=_keyed("type")))),
    columns=(Column("Created At", "date", ".metadata.creationTimestamp"),),
    zero={"spec": {"names": {}}, "status": {}},
)

BUILT_IN = (
    Resource(
        "",
        "v1",
        "nodes",
        "Node",
        short_names=("no",),
        status=True,
        schema=object_schema(
            _struct(
                spec=_struct(podCIDRs=_SET, taints={"type": "array"}),
                status=_struct(
                    addresses=_keyed("type"),
                    conditions=_keyed("type"),
                    capacity=_struct(),
                    allocatable=_struct(),
                    nodeInfo=_struct(),
                    daemonEndpoints=_struct(kubeletEndpoint=_struct()),
                ),
            )
        ),
        zero={
            "spec": {},
            "status": {
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": dict.fromkeys(_NODE_INFO, ""),
            },
        },
        selectable=("spec.unschedulable",),
    ),
    Resource(
        "",
        "v1",
        "namespaces",
        "Namespace",
        short_names=("ns",),
        status=True,
        zero={"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
        selectable=("status.phase",),
    ),
    Resource(
        "",
        "v1",
        "pods",
        "Pod",
        namespaced=True,
        short_names=("po",),
        categories=("all",),
        status=True,
        schema=object_schema(
            _struct(
                spec=_struct(
                    containers=_keyed("name"),
                    initContainers=_keyed("name"),
                    volumes=_keyed("name"),
                    nodeSelector=_ATOMIC_MAP,
                ),
                status=_struct(conditions=_keyed("type")),
            )
        ),
        zero={"spec": {}, "status": {"phase": "Pending"}},
        selectable=("spec.nodeName", "spec.schedulerName", "spec.serviceAccountName", "status.phase"),
    ),
    Resource("", "v1", "services", "Service", namespaced=True, short_names=("svc",), categories=("all",), status=True),
    Resource("", "v1", "configmaps", "ConfigMap", namespaced=True, short_names=("cm",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True, short_names=("sa",)),
    Resource(
        "",
        "v1",
        "events",
        "Event",
        namespaced=True,
        short_names=("ev",),
        zero={
            "reportingComponent": "",
            "reportingInstance": "",
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": None,
        },
        selectable=_EVENT_FIELDS,
    ),
    Resource(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        namespaced=True,
        short_names=("ev",),
        stored_as="events",
        renamed={
            "regarding": "involvedObject",
            "note": "message",
            "reportingController": "reportingComponent",
            "deprecatedSource": "source",
            "deprecatedFirstTimestamp": "firstTimestamp",
            "deprecatedLastTimestamp": "lastTimestamp",
            "deprecatedCount": "count",
        },
        selectable=_EVENT_FIELDS,
    ),
    Resource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        namespaced=True,
        zero={"spec": {}},
        schema=object_schema(
            _struct(
                spec={
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {
                        "holderIdentity": {"type": "string", "nullable": True},
                        "leaseDurationSeconds": {"type": "integer", "nullable": True},
                        "leaseTransitions": {"type": "integer", "nullable": True},
                    },
                }
            )
        ),
        columns=(
            Column("Holder", "string", ".spec.holderIdentity"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
    ),
    CRDS,
)
