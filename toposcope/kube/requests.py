"""Server-side apply, built as data.

One constant field manager for each program, from the first release on: a key once written by
another kind of patch under the same name would never leave the object again (two managedFields
entries own it).

Where the API server keeps what both programs ask for.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from toposcope.kube.client import APPLY, MERGE, METADATA, Request
from toposcope.kube.shapes import parts
from toposcope.text import compact

NODES: Final = "/api/v1/nodes"


def apply(
    path: str, body: Mapping[str, Any], manager: str, *, force: bool, is_metadata_only: bool = False
) -> Request:
    """The request that sets the fields in `body` and makes us their manager.

    A field that an earlier apply named and this one does not is removed. `force` takes fields over
    from other managers. `is_metadata_only` asks for a small answer.
    """
    query = {
        "fieldManager": manager,
        "force": "true" if force else "false",
    }
    accept = METADATA if is_metadata_only else "application/json"
    content = compact(body).encode()
    return Request("PATCH", path, query, content, APPLY, accept)


def get(path: str, *, is_metadata_only: bool = False) -> Request:
    """The request that reads one object."""
    return Request("GET", path, {}, accept=METADATA if is_metadata_only else "application/json")


def merge_patch(path: str, manager: str, body: Mapping[str, Any]) -> Request:
    """The request that merges `body` into an object; the answer is small."""
    query = {"fieldManager": manager}
    return Request("PATCH", path, query, compact(body).encode(), MERGE, METADATA)


def create(path: str, body: Mapping[str, Any], manager: str) -> Request:
    """The request that creates an object and refuses unknown fields."""
    query = {"fieldManager": manager, "fieldValidation": "Strict"}
    return Request("POST", path, query, compact(body).encode())


_MOST_NOTE_CHARACTERS: Final = 1024
_MOST_NAME_CHARACTERS: Final = 253


def event(
    regarding: dict[str, str],
    kind: str,
    reason: str,
    note: str,
    reporter: str,
    *,
    instance: str,
    now: datetime,
    digits: int = 16,
) -> Request:
    """The request that records an event about `regarding`.

    `regarding` has apiVersion, kind, name, uid, and namespace if it has one. `kind` is `Normal` or
    `Warning`. Events about cluster-scoped objects live in the namespace `default`. Notes are cut at
    the API's limit of 1024 bytes. An event's name is the object's, a dot and so many hexadecimal
    `digits`.
    """
    namespace = regarding.get("namespace") or "default"
    moment = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    content = f"{regarding}{reason}{note}{moment}".encode()
    digest = hashlib.sha256(content).hexdigest()[:digits]
    # Cut, a name may end in what no part of a name may end in.
    about = regarding["name"][: _MOST_NAME_CHARACTERS - 1 - digits].rstrip("-.")
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.{digest}", "namespace": namespace},
        "eventTime": moment,
        "type": kind,
        "reason": reason,
        "action": "Checked",
        "note": note.encode()[:_MOST_NOTE_CHARACTERS].decode(errors="ignore"),
        "regarding": regarding,
        "reportingController": f"gpu.topology/{reporter}",
        "reportingInstance": instance[:128] or reporter,
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    return Request("POST", path, {}, compact(body).encode())


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(request: Request) -> str:
    """The verb as RBAC has it, or `apply`."""
    if request.method == "PATCH" and request.content_type == APPLY:
        return "apply"
    of_collection = len(parts(request.path)) == 1
    if request.method == "GET":
        if "watch" in request.query:
            return "watch"
        return "list" if of_collection else "get"
    if request.method == "DELETE" and of_collection:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def resource_of(request: Request) -> str:
    """The resource as `kubectl get` names it.

    Examples are `nodes`, `deployments.apps` and `clustertopologies.gpu.topology/status`. A request
    that asks what is served is about `discovery`.
    """
    below = parts(request.path)
    if not below or not below[0]:
        return "discovery"
    resource = below[0]
    first, group, *_ = request.path.strip("/").split("/")
    if first == "apis":
        resource += f".{group}"
    if len(below) > 2:  # noqa: PLR2004 - plural, name, subresource
        resource += f"/{below[2]}"
    return resource
