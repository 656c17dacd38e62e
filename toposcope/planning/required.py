"""What the objects that systems make for gangs say of the levels that these have to stay within.

Each system says where: its plugin in which field the level of a whole gang is, and its
`requiring.py` what such an object says of parts of the gang.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.plugin import RequiredField
from toposcope.integrations.framework.requiring import Requiring, RequiringObjects
from toposcope.integrations.registry import PLUGINS, PUBLISHED, requiring
from toposcope.kube.client import Caller
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.snapshot.live import forbidden
from toposcope.snapshot.model import Snapshot


def _fields() -> dict[tuple[str, str], RequiredField]:
    fields = {}
    for plugin in PLUGINS:
        for field in plugin.required_fields:
            fields[field.kind.key] = field
    return fields


_FIELDS: Final[Mapping[tuple[str, str], RequiredField]] = _fields()
"""By API group and kind."""


def requiring_kinds() -> tuple[Kind, ...]:
    """The kinds of objects that say what parts of a gang require."""
    kinds: list[Kind] = []
    for system in requiring():
        kinds += system.kinds
    return tuple(kinds)


def _systems() -> dict[tuple[str, str], Requiring]:
    systems = {}
    for system in requiring():
        for kind in system.kinds:
            systems[kind.key] = system
    return systems


def _kinds() -> tuple[Kind, ...]:
    kinds: dict[Kind, None] = {}
    for field in _FIELDS.values():
        kinds[field.kind] = None
    kinds.update(dict.fromkeys(requiring_kinds()))
    return tuple(kinds)


_SYSTEMS: Final = _systems()
"""Who reads the objects of a kind, by API group and kind."""
_KINDS: Final = _kinds()
_PUBLISHED_KEYS: Final = frozenset(kind.key for kind in PUBLISHED)


class RequiredLevels:
    """What the objects that systems make for gangs require: a collector of whole objects."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str, str], str] = {}
        """Label key by kind, namespace and name."""
        self.warnings: list[str] = []
        """What `read` must not list."""
        self._forbidden: set[tuple[str, str]] = set()
        self._documents: list[dict[str, Any]] = []

    def wants(self, group: str, kind: str) -> bool:
        """Whether such objects say what a gang requires."""
        return (group, kind) in _FIELDS or (group, kind) in _SYSTEMS

    def put(self, document: Mapping[str, Any]) -> None:
        """Take one such object."""
        group, kind = kind_of(document)
        root = Field(document)
        namespace, name = namespace_of(root), name_of(root)
        field = _FIELDS.get((group, kind))
        key = _whole(root, field) if field else ""
        if key:
            self.keys[kind, namespace, name] = key
        system = _SYSTEMS.get((group, kind))
        if system is None or not system.is_needed(root):
            return
        spec = {}
        for name_of_field in system.fields:
            value = (root / "spec" / name_of_field).value
            if value is not None:
                spec[name_of_field] = value
        self._documents.append(
            {
                "apiVersion": f"{group}/v",
                "kind": kind,
                "metadata": {"namespace": namespace, "name": name},
                "spec": spec,
            }
        )

    def read(self, client: Caller) -> None:
        """Take what the cluster has. Raises KubeError; a missing right is a warning."""
        for kind in _KINDS:
            try:
                self._read_kind(client, kind)
            except ApiError as error:
                if error.is_forbidden:
                    self._forbidden.add(kind.key)
                    lost = "levels that only they require are unknown"
                    self.warnings.append(forbidden(kind.name, lost, error))
                elif not error.is_not_found:
                    raise

    def _read_kind(self, client: Caller, kind: Kind) -> None:
        """Take the objects of a kind, in the first version that is served. Raises KubeError."""
        *first, last = kind.versions
        for version in first:
            try:
                self._read_version(client, kind, version)
            except ApiError as error:
                if error.is_not_found:
                    continue
                raise
            return
        self._read_version(client, kind, last)

    def _read_version(self, client: Caller, kind: Kind, version: str) -> None:
        for item in everything(client, kind.path(version)):
            self.put({**item, "apiVersion": kind.api_version(version), "kind": kind.kind})

    def objects(self, snapshot: Snapshot) -> RequiringObjects:
        """The objects, beside the nodes of a cluster and the topology resources in it."""
        documents = list(self._documents)
        for resource in snapshot.published:
            if resource.key in _SYSTEMS:
                documents.append(dict(resource.document))
        return RequiringObjects.of(documents, snapshot.by_name, self._forbidden)

    def documents(self) -> Iterator[dict[str, Any]]:
        """The objects that require a level, as `put` takes them.

        Topology resources are left out: a snapshot has them anyway.
        """
        for document in self._documents:
            if kind_of(document) not in _PUBLISHED_KEYS:
                yield document


def _whole(root: Field, field: RequiredField) -> str:
    """The level that all of the gang requires; empty: none."""
    constraint = root / "spec" / field.path[0]
    place = constraint
    for name in field.path[1:]:
        place /= name
    if (constraint / "mode").text() == "soft":
        return ""
    if field.needs and not (constraint / field.needs).text():
        return ""
    return place.text() or ""
