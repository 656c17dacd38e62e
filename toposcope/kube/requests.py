"""Server-side apply, built as data.

One constant field manager for each program, from the first release on: a key once written by another kind of patch
under the same name would never leave the object again (two managedFields entries own it).

Where the API server keeps what both programs ask for.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.kube.client import APPLY, METADATA, Request
from toposcope.topology.text import compact

NODES: Final = "/api/v1/nodes"


def apply(path: str, body: Mapping[str, Any], manager: str, *, force: bool, metadata_only: bool = False) -> Request:
    """The request that makes the fields in `body` ours and so.

    A field that an earlier apply named and this one does not is removed. `force` takes fields over from other
    managers. `metadata_only` asks for a small answer.
    """
    query = {"fieldManager": manager, "force": "true" if force else "false"}
    accept = METADATA if metadata_only else "application/json"
    return Request("PATCH", path, query, compact(body).encode(), APPLY, accept)


def get(path: str, *, metadata_only: bool = False) -> Request:
    """The request that reads one object."""
    return Request("GET", path, {}, accept=METADATA if metadata_only else "application/json")


def create(path: str, body: Mapping[str, Any], manager: str) -> Request:
    """The request that makes a new object and refuses unknown fields."""
    query = {"fieldManager": manager, "fieldValidation": "Strict"}
    return Request("POST", path, query, compact(body).encode())
