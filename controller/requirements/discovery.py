"""Which sources the API server serves, asked of its discovery documents and not of CRDs.

A CRD can be there and not be served (its names are taken); what discovery lists can be followed.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from controller.requirements.source import Source
from kube.apply import get
from kube.client import UNREADABLE, ApiClient, Request
from kube.errors import ApiError, Unreachable


class _Version(msgspec.Struct, frozen=True, gc=False):
    version: str


class _Group(msgspec.Struct, frozen=True, gc=False):
    name: str
    versions: list[_Version]


class _Groups(msgspec.Struct, frozen=True, gc=False):
    groups: list[_Group]


class _Resource(msgspec.Struct, frozen=True, gc=False):
    name: str


class _Resources(msgspec.Struct, frozen=True, gc=False):
    resources: list[_Resource]


_GROUPS: Final = msgspec.json.Decoder(_Groups)
_RESOURCES: Final = msgspec.json.Decoder(_Resources)


def discover(client: ApiClient, sources: Iterable[Source]) -> dict[Source, str]:
    """The sources that are served, each with the version to follow. Raises KubeError."""
    answer = client.read(get("/apis"))
    try:
        groups = {group.name: {v.version for v in group.versions} for group in _GROUPS.decode(answer).groups}
    except UNREADABLE as error:
        raise Unreachable(f"the answer to GET /apis is no list of API groups: {error}") from error
    plurals: dict[str, set[str]] = {}
    found = {}
    for source in sources:
        for version in source.versions:
            path = f"/apis/{source.group}/{version}"
            if version not in groups.get(source.group, ()):
                continue
            if path not in plurals:
                plurals[path] = _plurals(client, path)
            if source.plural in plurals[path]:
                found[source] = version
                break
    return found


def _plurals(client: ApiClient, path: str) -> set[str]:
    try:
        answer = client.read(get(path))
        return {resource.name for resource in _RESOURCES.decode(answer).resources}
    except ApiError as error:
        if error.not_found:
            return set()
        raise
    except UNREADABLE as error:
        raise Unreachable(f"the answer to GET {path} is no list of resources: {error}") from error


def is_gone(client: ApiClient, path: str) -> bool:
    """Whether a collection that discovery no longer lists is gone indeed. Raises Unreachable.

    A server that has just started may list its groups before it has read its CRDs: no reason to forget a workload.
    """
    try:
        client.read(Request("GET", path, {"limit": "1"}))
    except ApiError as error:
        return error.not_found
    return False
