"""The forms in which a client can ask for objects: whole, metadata only, or as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from toposcope.simulator.apiserver import tables
from toposcope.simulator.apiserver.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from toposcope.simulator.apiserver.resources import Resource
    from toposcope.simulator.apiserver.store import Stored


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_decoder = msgspec.json.Decoder(_Metadata)


class View(Protocol):
    """How objects of a resource are written out."""

    def check(self, resource: Resource, *, listed: bool) -> None:
        """Raise `StatusError` (406) where this is no form of a list, or of a single object."""

    def one(self, resource: Resource, item: Stored) -> bytes:
        """Write one object, as GET and watch events carry it."""

    def many(self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]) -> Iterator[bytes]:
        """Write a list in pieces."""

    def bookmark(self, resource: Resource, metadata: Mapping[str, Any]) -> bytes:
        """Write the empty object that a bookmark carries."""


class Whole:
    """The objects as they are."""

    def check(self, resource: Resource, *, listed: bool) -> None:
        """Nothing is refused."""

    def one(self, resource: Resource, item: Stored) -> bytes:
        """Write the object with its type."""
        if resource.renamed:
            return msgspec.json.encode(typed(resource, item))
        return resource.type_prefix + item.body

    def many(self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]) -> Iterator[bytes]:
        """Write the list; as on the real server, items of built-in kinds do not carry their type."""
        kind = (resource.list_kind or f"{resource.kind}List").encode()
        yield _list_head(kind, resource.group_version.encode(), metadata)
        for index, item in enumerate(items):
            if resource.renamed:
                body = msgspec.json.encode(renamed(resource, item.decode()))
            else:
                body = resource.type_prefix + item.body if resource.custom else b"{" + item.body
            yield b"," + body if index else body
        yield b"]}"

    def bookmark(self, resource: Resource, metadata: Mapping[str, Any]) -> bytes:
        """Write an object with nothing in it."""
        type_ = {"kind": resource.kind, "apiVersion": resource.group_version}
        return msgspec.json.encode({**type_, "metadata": metadata, **resource.zero})


class MetadataOnly:
    """`PartialObjectMetadata`, or where it is `of_lists` the list of them; each is refused for the other."""

    def __init__(self, *, of_lists: bool) -> None:
        self._of_lists = of_lists

    def check(self, resource: Resource, *, listed: bool) -> None:
        """Raise `StatusError` (406), which names the type in Go as a real server does."""
        if listed != self._of_lists:
            package = "unstructured" if resource.custom else resource.group.partition(".")[0] or "core"
            kind = "Unstructured" if resource.custom else resource.kind
            raise StatusError(
                406,
                "NotAcceptable",
                f"you requested PartialObjectMetadata{'List' * self._of_lists}, but the requested object is "
                f"{'a list' if listed else 'not a list'} (*{package}.{kind}{'List' * listed})",
                details={},
            )

    _prefix = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'

    def one(self, resource: Resource, item: Stored) -> bytes:  # noqa: ARG002 - the same for all resources
        """Write the metadata only."""
        return self._prefix + bytes(_metadata_decoder.decode(b"{" + item.body).metadata) + b"}"

    def many(self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]) -> Iterator[bytes]:
        """Write a `PartialObjectMetadataList`."""
        yield _list_head(b"PartialObjectMetadataList", b"meta.k8s.io/v1", metadata)
        for index, item in enumerate(items):
            body = self.one(resource, item)
            yield b"," + body if index else body
        yield b"]}"

    def bookmark(self, resource: Resource, metadata: Mapping[str, Any]) -> bytes:  # noqa: ARG002 - the same for all
        """Write metadata with nothing else in it."""
        return self._prefix + msgspec.json.encode(metadata) + b"}"


class Tabular:
    """`Table`, what `kubectl get` prints; ages are counted to `now`."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def check(self, resource: Resource, *, listed: bool) -> None:
        """Nothing is refused: one object is a table too."""

    def one(self, resource: Resource, item: Stored) -> bytes:
        """Write a table of one row."""
        return b"".join(self.many(resource, [item], {"resourceVersion": str(item.revision)}))

    def many(self, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any]) -> Iterator[bytes]:
        """Write a table with one row for each object."""
        columns = tables.columns_of(resource)
        rows = []
        for item in items:
            partial = msgspec.Raw(WHOLE_METADATA.one(resource, item))
            cells = tables.cells(resource, columns, item.decode(), self._now)
            rows.append({"cells": cells, "object": partial})
        table = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [tables.definition(column) for column in columns],
            "rows": rows,
        }
        yield msgspec.json.encode(table)

    def bookmark(self, resource: Resource, metadata: Mapping[str, Any]) -> bytes:
        """Write a table without rows."""
        return b"".join(self.many(resource, [], metadata))


WHOLE = Whole()
WHOLE_METADATA = MetadataOnly(of_lists=False)
_METADATA_ONLY = {"PartialObjectMetadata": WHOLE_METADATA, "PartialObjectMetadataList": MetadataOnly(of_lists=True)}


def negotiate(accept: str, now: datetime) -> View:
    """Choose the first form of an Accept header that is known; raises `StatusError` (406) for none."""
    for choice in accept.split(",") if accept else ("*/*",):
        media, *parameters = (part.strip() for part in choice.split(";"))
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part).get("as", "")
        if media not in ("application/json", "application/*", "*/*"):
            continue
        if wanted in _METADATA_ONLY:
            return _METADATA_ONLY[wanted]
        if wanted == "Table":
            return Tabular(now)
        if not wanted:
            return WHOLE
    raise StatusError(406, "NotAcceptable", "only the following media types are accepted: application/json", details={})


def typed(resource: Resource, item: Stored) -> dict[str, Any]:
    """Return the object as a dict with its type."""
    return {"kind": resource.kind, "apiVersion": resource.group_version, **renamed(resource, item.decode())}


def renamed(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    """Give fields the names they have in this API group."""
    names = {stored: shown for shown, stored in resource.renamed.items()}
    return {names.get(key, key): value for key, value in obj.items()}


def _list_head(kind: bytes, version: bytes, metadata: Mapping[str, Any]) -> bytes:
    return b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (kind, version, msgspec.json.encode(metadata))
