"""The level that a whole gang has to stay within where an object made for it says so.

Each system's plugin says in which field: label keys, or what else names a level there.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.plugin import RequiredField
from toposcope.integrations.registry import PLUGINS
from toposcope.kube.client import Caller
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.snapshot.live import forbidden


def _fields() -> dict[tuple[str, str], RequiredField]:
    fields = {}
    for plugin in PLUGINS:
        for field in plugin.required_fields:
            fields[field.kind.key] = field
    return fields


_FIELDS: Final[Mapping[tuple[str, str], RequiredField]] = _fields()
"""By API group and kind."""


class RequiredLevels:
    """What the objects that systems make for gangs require: a collector of whole objects."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str, str], str] = {}
        """Label key by kind, namespace and name."""
        self.warnings: list[str] = []
        """What `read` must not list."""
        self._documents: list[dict[str, Any]] = []

    def wants(self, group: str, kind: str) -> bool:
        """Whether such objects have a field that says so."""
        return (group, kind) in _FIELDS

    def put(self, document: Mapping[str, Any]) -> None:
        """Take one such object."""
        group, kind = kind_of(document)
        path = _FIELDS[group, kind].path
        root = Field(document)
        constraint = root / "spec" / path[0]
        place = constraint
        for name in path[1:]:
            place /= name
        key = place.text()
        if not key or (constraint / "mode").text() == "soft":
            return
        namespace, name = namespace_of(root), name_of(root)
        self.keys[kind, namespace, name] = key
        self._documents.append(
            {
                "apiVersion": f"{group}/v",
                "kind": kind,
                "metadata": {"namespace": namespace, "name": name},
                "spec": {path[0]: constraint.value},
            }
        )

    def read(self, client: Caller) -> None:
        """Take what the cluster has. Raises KubeError; a missing right is a warning."""
        for field in _FIELDS.values():
            try:
                self._read_kind(client, field.kind)
            except ApiError as error:
                if error.is_forbidden:
                    lost = "levels that only they require are unknown"
                    self.warnings.append(forbidden(field.kind.name, lost, error))
                elif not error.is_not_found:
                    raise

    def _read_kind(self, client: Caller, kind: Kind) -> None:
        for item in everything(client, kind.path()):
            self.put({**item, "apiVersion": kind.api_version(), "kind": kind.kind})

    def documents(self) -> Iterator[dict[str, Any]]:
        """The objects that require a level, as `put` takes them."""
        yield from self._documents
