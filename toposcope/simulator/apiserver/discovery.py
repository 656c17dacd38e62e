"""The catalogue of resources, and the documents that tell clients about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.errors import NoSuchPathError, not_served
from toposcope.simulator.apiserver.resources import BUILT_IN, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.3+embedded", "platform": "linux/amd64"}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


class Catalog:
    """Everything served now: the built-in resources and those of established CRDs."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str], dict[str, Resource]] = {}
        self.replace_custom(())

    def replace_custom(self, custom: Iterable[Resource]) -> None:
        """Serve exactly these custom resources from now on."""
        resources: dict[tuple[str, str], dict[str, Resource]] = {}
        for resource in (*BUILT_IN, *custom):
            resources.setdefault((resource.group, resource.version), {})[resource.plural] = resource
        self._resources = resources

    def find(self, group: str, version: str, plural: str) -> Resource:
        """Return the resource; raises `StatusError` (404) or `NoSuchPathError` where the real server does."""
        served = self._resources.get((group, version))
        if served is None:
            raise NoSuchPathError
        if plural in served:
            return served[plural]
        if any(resource.custom for resource in served.values()):
            raise NoSuchPathError
        raise not_served()

    def by_kind(self, group: str, version: str, kind: str) -> Resource:
        """Return the resource of a kind; raises `LookupError` when none is served."""
        for resource in self._resources.get((group, version), {}).values():
            if resource.kind == kind:
                return resource
        raise LookupError(f"no resource serves kind {kind!r} of {group or 'core'}/{version}: load its CRD first")

    def document(self, path: tuple[str, ...]) -> dict[str, Any] | None:  # noqa: C901, PLR0911 - a table of paths
        """Return the discovery document at a path, None when the path is none; raises `NoSuchPathError`."""
        match path:
            case ("version",):
                return VERSION
            case ("api",):
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case ("apis",):
                groups = [self._group(name) for name in self._groups()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ("apis", group):
                if group not in self._groups():
                    raise NoSuchPathError
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ("api", version):
                return self._resource_list("", version)
            case ("apis", group, version):
                return self._resource_list(group, version)
            case ("openapi", "v3"):
                roots = [_root(group, version) for group, version in self._resources]
                return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}
            case ("openapi", "v3", "api", version):
                return self._openapi("", version)
            case ("openapi", "v3", "apis", group, version):
                return self._openapi(group, version)
        return None

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(group for group, _ in self._resources if group))

    def _group(self, name: str) -> dict[str, Any]:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for group, version in self._resources
            if group == name
        ]
        versions.sort(key=lambda entry: _preference(entry["version"]))
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _served(self, group: str, version: str) -> Iterable[Resource]:
        if (group, version) not in self._resources:
            raise NoSuchPathError
        return self._resources[group, version].values()

    def _resource_list(self, group: str, version: str) -> dict[str, Any]:
        entries = [entry for resource in self._served(group, version) for entry in _entries(resource)]
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}

    def _openapi(self, group: str, version: str) -> dict[str, Any]:
        """Say only that PATCH knows `fieldValidation`: what kubectl asks before it sends an object."""
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")
        ]
        paths = {}
        for resource in self._served(group, version):
            scope = "/namespaces/{namespace}" if resource.namespaced else ""
            kind = {"group": group, "version": version, "kind": resource.kind}
            operation = {"parameters": parameters, "responses": {}, "x-kubernetes-group-version-kind": kind}
            paths[f"{resource.path}{scope}/{resource.plural}/{{name}}"] = {"patch": operation}
        info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _entries(resource: Resource) -> Iterator[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    yield entry
    if resource.status:
        yield {
            **{key: entry[key] for key in ("namespaced", "kind")},
            "name": f"{resource.plural}/status",
            "singularName": "",
            "verbs": ["get", "patch", "update"],
        }


def _preference(version: str) -> tuple[int, int, int]:
    """Sort key that puts GA before beta before alpha, newer first (apimachinery's version priority)."""
    for rank, stage in enumerate(("beta", "alpha"), start=1):
        if stage in version:
            major, _, minor = version[1:].partition(stage)
            return rank, -int(major), -int(minor or 0)
    return 0, -int(version[1:]) if version[1:].isdigit() else 0, 0
