"""What all publishers do at the API server: ask what it serves, try a new object, delete one that nobody holds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
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

Clock = Callable[[], float]
"""Monotonic seconds."""

Holders = Callable[[Mapping[str, Any]], list[str]]
"""Who must let go of an object before it can be deleted, each as `ResourceFlavor gpu` or `finalizer NAME`."""


_MAX_NAME: Final = 240
_MAX_LISTED: Final = 5
_SOON: Final = 1.0


class Publisher(Protocol):
    """One target of publishing; called in the given order (KAI's after Grove's)."""

    name: str
    """Its field in `spec.publish`."""
    group: str
    """API group of what it writes."""

    def served(self) -> bool:
        """Whether the API server serves the target's kind. Raises KubeError."""

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Give the target these levels. Raises KubeError if the server does not answer."""

    def retract(self, topology: Topology) -> Published | None:
        """Delete what was published before; None if nothing of ours is left.

        Raises KubeError as above.
        """


def served_resources(client: Caller, api_version: str) -> frozenset[str]:
    """Plurals (and `plural/subresource`) in discovery: a CRD may exist and not be served.

    Raises KubeError.
    """
    document = find(client, f"/apis/{api_version}") or {"resources": ()}
    return frozenset(resource["name"] for resource in document["resources"])


def try_create(client: Caller, target: Target, body: Mapping[str, Any]) -> None:
    """Have the server validate a new object, under another name and as a dry run.

    Raises ApiError if it refuses.
    """
    name = f"{target.name[:_MAX_NAME].rstrip('-.')}-dry-run"
    trial = {**body, "metadata": {**body["metadata"], "name": name}}
    query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "dryRun": "All"}
    client.call(Request("POST", target.collection, query, msgspec.json.encode(trial)))


def create_by_apply(client: Caller, target: Target, body: Mapping[str, Any]) -> None:
    """Create an object whose fields a later apply can remove.

    Raises KubeError: a conflict where there is one by now.

    An apply changes an object that somebody created since we looked, and where it has the same
    levels meets no conflict even without force. A resourceVersion that no object has makes that a
    conflict; it means nothing to a creation.
    """
    body = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
    client.call(apply(target.path, body, MANAGER, force=False))


def is_terminating(document: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted and waits for its finalizers."""
    return "deletionTimestamp" in document["metadata"]


def remove(
    client: Caller, target: Target, document: Mapping[str, Any], why: str, holders: Sequence[str]
) -> Published | None:
    """Delete our object; None once it is gone, else what it waits for. Raises KubeError.

    `why` completes "waits to be deleted". Nothing is deleted while somebody holds it: it would stay
    terminating, which cannot be undone. And only the state that was read is deleted, by uid and
    resourceVersion.
    """
    metadata = document["metadata"]
    if not is_terminating(document):
        if holders:
            return target.not_in_sync(
                "Waiting",
                f"waits to be deleted {why}; still held by {listing(holders, _MAX_LISTED)}",
            )
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        try:
            client.call(Request("DELETE", target.path, {}, msgspec.json.encode(options)))
        except ApiError as error:
            if not error.not_found:
                raise
    left = find(client, target.path)
    if left is None or left["metadata"]["uid"] != metadata["uid"]:
        return None
    return terminating(target, left, holders, _SOON)


def retract(
    client: Caller, target: Target, topology: Topology, holders: Holders
) -> Published | None:
    """Delete the object if it is ours; None when nothing of ours is left. Raises KubeError."""
    existing = find(client, target.path)
    if existing is None or not is_ours(existing, topology):
        return None
    return remove(
        client,
        target,
        existing,
        f"because spec.publish.{target.option} is Never",
        holders(existing),
    )


def terminating(
    target: Target, document: Mapping[str, Any], holders: Sequence[str], again_in: float
) -> Published:
    """The object is being deleted but still exists, and what holds it."""
    held = list(dict.fromkeys((*finalizers(document), *holders)))
    text = "is being deleted" + (f"; still held by {listing(held, _MAX_LISTED)}" if held else "")
    return target.not_in_sync("Waiting", text, again_in)
