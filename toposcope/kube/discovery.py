"""What the API server serves, from its discovery documents and not from CRDs.

A CRD can exist and not be served (its names are taken); what discovery lists can be watched.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, UnreachableError
from toposcope.kube.listing import UNREADABLE
from toposcope.kube.requests import get


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object. `versions` are those that are understood, the preferred one first."""

    group: str
    """Empty for the core group."""
    kind: str
    plural: str
    versions: tuple[str, ...]
    short: tuple[str, ...] = field(default=(), kw_only=True)
    is_namespaced: bool = field(default=True, kw_only=True)

    @property
    def name(self) -> str:
        """`clustertopologies.gpu.topology`, as a CRD is called.

        kubectl takes this name for this kind only.
        """
        return f"{self.plural}.{self.group}".rstrip(".")

    @property
    def key(self) -> tuple[str, str]:
        """Group and kind."""
        return self.group, self.kind

    def is_called(self, word: str) -> bool:
        """Whether kubectl takes `word` for this kind.

        It takes the kind, plural or a short name, with or without the group.
        """
        name, _, group = word.lower().partition(".")
        names = (self.kind.lower(), self.plural, *self.short)
        return name in names and group in ("", self.group)

    def api_version(self, version: str = "") -> str:
        """Group and version, the preferred one where none is named."""
        return f"{self.group}/{version or self.versions[0]}".lstrip("/")

    def path(self, version: str = "", namespace: str = "") -> str:
        """Path of all objects, in a namespace where one is named and the kind has them."""
        prefix = "apis" if self.group else "api"
        root = f"/{prefix}/{self.api_version(version)}"
        if namespace and self.is_namespaced:
            root += f"/namespaces/{namespace}"
        return f"{root}/{self.plural}"


@dataclass(frozen=True, slots=True)
class Served:
    """What the discovery documents say at one moment."""

    groups: Mapping[str, frozenset[str]]
    """All API groups with their versions."""
    resources: Mapping[str, frozenset[str]]
    """Plural names (and `plural/subresource`) by group and version, of the requested kinds only."""

    def version(self, kind: Kind) -> str | None:
        """The first of the kind's versions that is served; None: it is not."""
        for version in kind.versions:
            if kind.plural in self.resources.get(kind.api_version(version), ()):
                return version
        return None


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


def discover(client: ApiClient, kinds: Iterable[Kind]) -> Served:
    """Look in which version each kind is served. Raises KubeError."""
    groups = _groups(client)
    resources: dict[str, frozenset[str]] = {}
    for kind in kinds:
        for version in kind.versions:
            api_version = kind.api_version(version)
            if version not in groups.get(kind.group, ()):
                continue
            if api_version not in resources:
                resources[api_version] = _plurals(client, f"/apis/{api_version}")
            if kind.plural in resources[api_version]:
                break
    return Served(groups, resources)


def _groups(client: ApiClient) -> dict[str, frozenset[str]]:
    """All API groups with their versions."""
    answer = client.read(get("/apis"))
    try:
        listed = _GROUPS.decode(answer).groups
    except UNREADABLE as error:
        raise UnreachableError(
            f"the answer to GET /apis is not a list of API groups: {error}"
        ) from error
    groups = {}
    for group in listed:
        groups[group.name] = frozenset([version.version for version in group.versions])
    return groups


def _plurals(client: ApiClient, path: str) -> frozenset[str]:
    try:
        answer = client.read(get(path))
        return frozenset(resource.name for resource in _RESOURCES.decode(answer).resources)
    except ApiError as error:
        if error.is_not_found:
            return frozenset()
        raise
    except UNREADABLE as error:
        raise UnreachableError(
            f"the answer to GET {path} is not a list of resources: {error}"
        ) from error


def is_gone(client: ApiClient, path: str) -> bool:
    """Whether a collection that discovery no longer lists is removed. Raises UnreachableError.

    A server that has just started may list its groups before it has read its CRDs, which is no
    reason to forget a workload.
    """
    try:
        client.read(Request("GET", path, {"limit": "1"}))
    except ApiError as error:
        return error.is_not_found
    return False
