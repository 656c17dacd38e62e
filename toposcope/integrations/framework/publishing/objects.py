"""Requests that all publishers make: discovery, a trial creation, and a safe deletion."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.integrations.framework.published import (
    MANAGER,
    Published,
    Target,
    finalizers,
    is_ours,
)
from toposcope.kube.client import Caller, Request, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.text import listing

Holders = Callable[[Mapping[str, Any]], list[str]]
"""What must release an object before it can be deleted: `ResourceFlavor gpu`, `finalizer NAME`."""

Document = Mapping[str, Any]

_MAX_NAME_CHARACTERS: Final = 240
_MAX_LISTED: Final = 5
_SOON_SECONDS: Final = 1.0


def served_resources(client: Caller, api_version: str) -> frozenset[str]:
    """Plurals (and `plural/subresource`) in discovery: a CRD may exist and not be served.

    Raises KubeError.
    """
    document = find(client, f"/apis/{api_version}")
    if not document:
        return frozenset()
    return frozenset(resource["name"] for resource in document["resources"])


def try_create(client: Caller, target: Target, body: Document) -> None:
    """Let the server validate a new object, by a dry run under another name.

    Raises ApiError if it rejects it.
    """
    begin = target.name[:_MAX_NAME_CHARACTERS].rstrip("-.")
    metadata = dict(body["metadata"])
    metadata["name"] = f"{begin}-dry-run"
    trial = {**body, "metadata": metadata}
    query = {
        "fieldManager": MANAGER,
        "fieldValidation": "Strict",
        "dryRun": "All",
    }
    request = Request(
        method="POST",
        path=target.collection,
        query=query,
        body=msgspec.json.encode(trial),
    )
    client.call(request)


def create_by_apply(client: Caller, target: Target, body: Document) -> None:
    """Create an object whose fields a later apply can remove.

    Raises KubeError, a conflict if the object already exists. A plain apply would change an object
    created since the last read, without a conflict if it has the same levels. A resourceVersion
    that no object has forces the conflict and does not affect a creation.
    """
    metadata = dict(body["metadata"])
    metadata["resourceVersion"] = "1"
    new = {**body, "metadata": metadata}
    client.call(apply(target.path, new, MANAGER, force=False))


def is_terminating(document: Document) -> bool:
    """Whether the object is being deleted and waits for its finalizers."""
    return "deletionTimestamp" in document["metadata"]


def remove(
    client: Caller, target: Target, document: Document, why: str, holders: Sequence[str]
) -> Published | None:
    """Delete a managed object.

    Returns None once it is gone, else what it waits for. Raises KubeError. `why` completes "waits
    to be deleted". An object in use is not deleted: it would stay terminating, which cannot be
    undone.
    """
    if not is_terminating(document):
        if holders:
            text = f"waits to be deleted {why}; still held by {listing(holders, _MAX_LISTED)}"
            return target.not_in_sync("Waiting", text)
        _delete(client, target, document)
    remaining = find(client, target.path)
    if remaining is None:
        return None
    uid = document["metadata"]["uid"]
    if remaining["metadata"]["uid"] != uid:  # another of its name
        return None
    return terminating(target, remaining, holders, _SOON_SECONDS)


def _delete(client: Caller, target: Target, document: Document) -> None:
    """Delete exactly the state that was read, by uid and resourceVersion. Raises KubeError."""
    metadata = document["metadata"]
    preconditions = {
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
    }
    request = Request("DELETE", target.path, {}, msgspec.json.encode(options))
    try:
        client.call(request)
    except ApiError as error:
        if not error.is_not_found:
            raise


def retract(
    client: Caller, target: Target, topology: Topology, holders: Holders
) -> Published | None:
    """Delete the object if Toposcope manages it. Returns None once it is gone. Raises KubeError."""
    existing = find(client, target.path)
    if existing is None or not is_ours(existing, topology):
        return None
    why = f"because spec.publish.{target.option} is Never"
    return remove(client, target, existing, why, holders(existing))


def terminating(
    target: Target, document: Document, holders: Sequence[str], again_in: float
) -> Published:
    """The result for an object that is being deleted, with what still holds it."""
    held = dict.fromkeys(finalizers(document))
    held.update(dict.fromkeys(holders))
    text = "is being deleted"
    if held:
        text += f"; still held by {listing(list(held), _MAX_LISTED)}"
    return target.not_in_sync("Waiting", text, again_in)
