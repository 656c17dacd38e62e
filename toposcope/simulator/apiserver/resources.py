"""Which resources exist: built-in ones, those of CRDs, and the documents that list them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from toposcope.api.yaml_text import load
from toposcope.simulator.apiserver.fields import ANY, Schema, compile_schema
from toposcope.simulator.apiserver.statuses import NoSuchPathError, Object, not_served

_VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+embedded",
    "platform": "linux/amd64",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def _struct(**properties: Any) -> Object:
    """Describe only the fields whose merge rules matter; the rest is kept as it comes."""
    return {
        "type": "object",
        "properties": properties,
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _keyed(key: str) -> Object:
    """List whose items are known by a field (`+listType=map`)."""
    return {
        "type": "array",
        "items": _struct(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }


_META = _struct(
    labels=_MAP,
    annotations=_MAP,
    finalizers={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    ownerReferences=_keyed("uid"),
)


_EXPLAINED: Final = {
    "apiVersion": {"type": "string", "description": "The group and version of this kind."},
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {
        "type": "object",
        "description": "Name, labels and annotations, as of every object.",
    },
}
"""What `kubectl explain` says of the fields that every kind has."""


def _object_schema(spec: Mapping[str, Any]) -> Schema:
    """Schema of a whole object from the schema of its own fields."""
    properties = {
        **spec.get("properties", {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": _META,
    }
    return compile_schema(
        {
            **spec,
            "type": "object",
            "properties": properties,
        }
    )


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of `kubectl get`: `path` is the JSONPath of a CRD's printer column."""

    name: str
    type: str
    path: str
    is_wide: bool = False


NAME = PrinterColumn("Name", "string", ".metadata.name")
AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True)
class ServedResource:
    """One kind in one version: its names, its rules, and where its objects are stored."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = False
    short_names: tuple[str, ...] = ()
    # An endpoint of its own for `status`, which the main endpoint then leaves alone.
    has_status: bool = False
    # CRDs only: schema-checked, pruned, counted in `metadata.generation`, listed with their type.
    is_custom: bool = False
    schema: Schema = ANY
    columns: tuple[PrinterColumn, ...] = (AGE,)
    # What an object of this kind has at least.
    zero: Mapping[str, Any] = field(default_factory=dict)
    selectable: tuple[str, ...] = ()
    # What another group calls a field of these objects, which it serves from the same storage.
    also: Mapping[str, str] = field(default_factory=dict)
    stored_as: str = ""

    @cached_property
    def group_version(self) -> str:
        """`v1`, `coordination.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def storage(self) -> str:
        """Name of the collection of all versions' objects, such as `leases.coordination.k8s.io`."""
        if self.stored_as:
            return self.stored_as
        if self.group:
            return f"{self.plural}.{self.group}"
        return self.plural

    @cached_property
    def type_prefix(self) -> bytes:
        """Opening bytes of every object: `{"kind":"Node","apiVersion":"v1",`."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.group_version}",'.encode()

    @cached_property
    def path(self) -> str:
        """Root of the group and version: `/api/v1`, `/apis/<group>/<version>`."""
        return f"/apis/{self.group_version}" if self.group else f"/api/{self.version}"


def _built_in(
    *,
    columns: Iterable[tuple[str, str, str]] = (),
    short: str = "",
    namespaced: bool = False,
    status: bool = False,
    **fields: Any,
) -> ServedResource:
    """Describe a built-in kind, whose only version is v1."""
    status_schema = _struct(
        addresses=_keyed("type"),
        conditions=_keyed("type"),
    )
    shown = tuple(PrinterColumn(*column) for column in columns)
    if not shown:
        shown = (AGE,)
    short_names = tuple(short.split())
    return ServedResource(
        version="v1",
        short_names=short_names,
        schema=_object_schema(_struct(status=status_schema)),
        columns=shown,
        is_namespaced=namespaced,
        has_status=status,
        **fields,
    )


_BUILT_IN = tuple(
    _built_in(**kind) for kind in load(Path(__file__).with_name("built_in.yaml").read_bytes())
)
CRDS = _BUILT_IN[-1]


# CRDs


def complete_crd(crd: Object, now: str) -> None:
    """Fill in, in place, what the server derives from a CRD.

    That is the name of its lists, and a status that serves it at once.
    """
    spec = crd["spec"]
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    good = {"status": "True", "lastTransitionTime": now}
    accepted = {
        "type": "NamesAccepted",
        "reason": "NoConflicts",
        "message": "no conflicts found",
        **good,
    }
    established = {
        "type": "Established",
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
        **good,
    }
    storing = [version for version in spec["versions"] if version.get("storage")]
    status = crd.setdefault("status", {})
    status.setdefault("conditions", [accepted, established])
    status["acceptedNames"] = names
    status["storedVersions"] = [version["name"] for version in storing]


def crd_resources(crd: Mapping[str, Any]) -> Iterator[ServedResource]:
    """What a definition adds, one resource for each served version."""
    spec = crd["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue

        columns = []
        for column in version.get("additionalPrinterColumns") or ():
            columns.append(_printer_column(column))
        if not columns:
            columns.append(AGE)
        selectable = []
        for selected in version.get("selectableFields") or ():
            path = selected["jsonPath"]
            selectable.append(path.lstrip("."))
        subresources = version.get("subresources") or {}
        schema = version["schema"]["openAPIV3Schema"]

        yield ServedResource(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            is_namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames", ())),
            has_status="status" in subresources,
            is_custom=True,
            schema=_object_schema(schema),
            columns=tuple(columns),
            selectable=tuple(selectable),
        )


def _printer_column(spec: Mapping[str, Any]) -> PrinterColumn:
    return PrinterColumn(
        name=spec["name"],
        type=spec["type"],
        path=spec["jsonPath"],
        is_wide=spec.get("priority", 0) > 0,
    )


# Discovery


class Catalog:
    """Everything served now: the built-in resources and those of CRDs."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str], dict[str, ServedResource]] = {}
        self.replace_custom(())

    def replace_custom(self, custom: Iterable[ServedResource]) -> None:
        """Serve exactly these custom resources from now on."""
        resources: dict[tuple[str, str], dict[str, ServedResource]] = {}
        for resource in (*_BUILT_IN, *custom):
            version = resource.group, resource.version
            of_version = resources.setdefault(version, {})
            of_version[resource.plural] = resource
        self._resources = resources

    def find(self, group: str, version: str, plural: str) -> ServedResource:
        """Return the resource.

        Raises `StatusError` (404) or `NoSuchPathError` where the real server does.
        """
        served = self._served(group, version)
        if plural in served:
            return served[plural]
        if any(resource.is_custom for resource in served.values()):
            raise NoSuchPathError
        raise not_served()

    def by_kind(self, group: str, version: str, kind: str) -> ServedResource:
        """Return the resource of a kind; raises `LookupError` when none is served."""
        for resource in self._resources.get((group, version), {}).values():
            if resource.kind == kind:
                return resource
        raise LookupError(
            f"no resource serves kind {kind!r} of {group or 'core'}/{version}: load its CRD first"
        )

    def document(self, path: tuple[str, ...]) -> Object | None:  # noqa: PLR0911 - a table of paths
        """Return the discovery document at a path, None when there is none.

        Raises `NoSuchPathError`.
        """
        match path:
            case ("version",):
                return _VERSION
            case ("api",):
                return {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": [],
                }
            case ("apis",):
                return self._group_list()
            case ("apis", group):
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ("api", version):
                return self._resource_list("", version)
            case ("apis", group, version):
                return self._resource_list(group, version)
            case ("openapi", "v3", *rest):
                return self._openapi_document(rest)
        return None

    def _group_list(self) -> Object:
        names: dict[str, None] = {}
        for group, _ in self._resources:
            if group:
                names[group] = None
        groups = [self._group(name) for name in names]
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups,
        }

    def _resource_list(self, group: str, version: str) -> Object:
        entries: list[Object] = []
        for resource in self._served(group, version).values():
            entries += _entries(resource)
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": entries,
        }

    def _openapi_document(self, segments: list[str]) -> Object | None:
        match segments:
            case []:
                return self._openapi_roots()
            case ["api", version]:
                return self._openapi("", version)
            case ["apis", group, version]:
                return self._openapi(group, version)
        return None

    def _openapi_roots(self) -> Object:
        paths = {}
        for group, version in self._resources:
            root = f"api/{version}"
            if group:
                root = f"apis/{group}/{version}"
            url = f"/openapi/v3/{root}"
            paths[root] = {"serverRelativeURL": url}
        return {"paths": paths}

    def _group(self, name: str) -> Object:
        versions = [version for group, version in self._resources if group == name]
        if not versions:
            raise NoSuchPathError
        versions.sort(key=_preference)
        entries = []
        for version in versions:
            entry = {"groupVersion": f"{name}/{version}", "version": version}
            entries.append(entry)
        return {
            "name": name,
            "versions": entries,
            "preferredVersion": entries[0],
        }

    def _served(self, group: str, version: str) -> dict[str, ServedResource]:
        if (group, version) not in self._resources:
            raise NoSuchPathError
        return self._resources[group, version]

    def _openapi(self, group: str, version: str) -> Object:
        """Say that PATCH knows `fieldValidation`, which kubectl asks first, and describe fields."""
        options = ("dryRun", "fieldValidation")
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in options
        ]
        paths, schemas = {}, {}
        reverse = ".".join(reversed(group.split(".")))
        for resource in self._served(group, version).values():
            scope = "/namespaces/{namespace}" if resource.is_namespaced else ""
            kind = {
                "group": group,
                "version": version,
                "kind": resource.kind,
            }
            operation = {
                "parameters": parameters,
                "responses": {},
                "x-kubernetes-group-version-kind": kind,
            }
            paths[f"{resource.path}{scope}/{resource.plural}/{{name}}"] = {"patch": operation}
            fields = {**resource.schema.rules.get("properties", {}), **_EXPLAINED}
            schema = {
                **resource.schema.rules,
                "properties": fields,
                "x-kubernetes-group-version-kind": [kind],
            }
            schemas[f"{reverse or 'core'}.{version}.{resource.kind}"] = schema
        info = {"title": "Kubernetes", "version": _VERSION["gitVersion"]}
        return {
            "openapi": "3.0.0",
            "info": info,
            "paths": paths,
            "components": {"schemas": schemas},
        }


def _entries(resource: ServedResource) -> Iterator[Object]:
    shared = {"namespaced": resource.is_namespaced, "kind": resource.kind}
    names = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "shortNames": [*resource.short_names],
    }
    yield {**shared, **names, "verbs": _VERBS}
    if resource.has_status:
        yield {
            **shared,
            "name": f"{resource.plural}/status",
            "singularName": "",
            "verbs": ["get", "patch", "update"],
        }


def _preference(version: str) -> tuple[int, int, int]:
    """Sort key: GA before beta before alpha, newer first (apimachinery's version priority)."""
    number = version[1:]
    for rank, stage in enumerate(("beta", "alpha"), start=1):
        if stage not in version:
            continue
        major, _, minor = number.partition(stage)
        if not minor:
            minor = "0"
        return rank, -int(major), -int(minor)

    if number.isdigit():
        return 0, -int(number), 0
    return 0, 0, 0
