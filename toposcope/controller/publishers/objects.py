"""What all publishers do at the API server: ask what it serves, try a new object, delete one that nobody holds.

A refused write is retried with exponential back-off, and at once when something else is to be written.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.integrations.framework.published import MANAGER, Published, Target, finalizers, is_ours
from toposcope.kube.client import Caller, Request, find
from toposcope.kube.errors import ApiError
from toposcope.topology.levels import Level
from toposcope.topology.text import listing

Clock = Callable[[], float]
"""Monotonic seconds."""

_FIRST: Final = 30.0
_LONGEST: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    attempt: Hashable
    attempts: int
    due: float
    answer: Published


class Backoff:
    """Remembers, by name, the last attempt that failed. Losing this costs one more attempt.

    An attempt is identified by everything that it depends on: what should be written, the existing object, the
    generation of the ClusterTopology (so that an admin who edits it gets an attempt at once).
    """

    def __init__(self, monotonic: Clock) -> None:
        self._monotonic = monotonic
        self._refusals: dict[str, _Refusal] = {}

    def standing(self, name: str, attempt: Hashable) -> Published | None:
        """The answer to repeat while the same attempt must wait; None: try it."""
        refusal = self._refusals.get(name)
        left = refusal.due - self._monotonic() if refusal is not None and refusal.attempt == attempt else 0.0
        return replace(refusal.answer, again_in=left) if refusal is not None and left > 0 else None

    def note(self, name: str, attempt: Hashable, answer: Published) -> Published:
        """Record how an attempt ended; the answer with the time until the next attempt.

        Refused (`Rejected`): after 30 s, twice as long each time, at most 10 minutes. `Waiting` names its own time.
        """
        if answer.reason not in {"Rejected", "Waiting"}:
            self.forget(name)
            return answer
        before = self._refusals.get(name)
        attempts = before.attempts + 1 if before is not None and before.attempt == attempt else 0
        if answer.reason == "Waiting":
            wait = answer.again_in or _FIRST
        else:
            wait = min(_FIRST * 2.0 ** min(attempts, 16), _LONGEST)
        self._refusals[name] = _Refusal(attempt, attempts, self._monotonic() + wait, answer)
        return replace(answer, again_in=wait)

    def forget(self, name: str) -> None:
        """The last attempt succeeded, or nothing is to be written."""
        self._refusals.pop(name, None)


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
        """Delete what was published before; None if nothing of ours is left. Raises KubeError as above."""


def served_resources(client: Caller, api_version: str) -> frozenset[str]:
    """Plurals (and `plural/subresource`) in discovery: a CRD may exist and not be served. Raises KubeError."""
    document = find(client, f"/apis/{api_version}") or {"resources": ()}
    return frozenset(resource["name"] for resource in document["resources"])


def try_create(client: Caller, target: Target, body: Mapping[str, Any]) -> None:
    """Have the server validate a new object, under another name and as a dry run. Raises ApiError if it refuses."""
    name = f"{target.name[:_MAX_NAME].rstrip('-.')}-dry-run"
    trial = {**body, "metadata": {**body["metadata"], "name": name}}
    query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "dryRun": "All"}
    client.call(Request("POST", target.collection, query, msgspec.json.encode(trial)))


def is_terminating(document: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted and waits for its finalizers."""
    return "deletionTimestamp" in document["metadata"]


def remove(
    client: Caller, target: Target, document: Mapping[str, Any], why: str, holders: Sequence[str]
) -> Published | None:
    """Delete our object; None once it is gone, else what it waits for. Raises KubeError.

    `why` completes "waits to be deleted". Nothing is deleted while somebody holds it: it would stay terminating, which
    cannot be undone. And only the state that was read is deleted, by uid and resourceVersion.
    """
    metadata = document["metadata"]
    if not is_terminating(document):
        if holders:
            return target.not_in_sync(
                "Waiting", f"waits to be deleted {why}; still held by {listing(holders, _MAX_LISTED)}"
            )
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        }
        try:
            client.call(Request("DELETE", target.path, {}, msgspec.json.encode(options)))
        except ApiError as error:
            if not error.not_found:
                raise
    left = find(client, target.path)
    if left is None or left["metadata"]["uid"] != metadata["uid"]:
        return None
    return terminating(target, left, holders, _SOON)


def retract(client: Caller, target: Target, topology: Topology, holders: Holders, backoff: Backoff) -> Published | None:
    """Delete the object if it is ours; None when nothing of ours is left. Raises KubeError."""
    existing = find(client, target.path)
    if existing is None or not is_ours(existing, topology):
        return None
    attempt = ("retract", existing["metadata"]["uid"], topology.generation)
    standing = backoff.standing(target.name, attempt)
    if standing:
        return standing
    try:
        left = remove(client, target, existing, f"because spec.publish.{target.option} is Never", holders(existing))
    except ApiError as error:
        return backoff.note(target.name, attempt, target.failed(error))
    backoff.forget(target.name)
    return left


def terminating(target: Target, document: Mapping[str, Any], holders: Sequence[str], again_in: float) -> Published:
    """The object is being deleted but still exists, and what holds it."""
    held = list(dict.fromkeys((*finalizers(document), *holders)))
    text = "is being deleted" + (f"; still held by {listing(held, _MAX_LISTED)}" if held else "")
    return target.not_in_sync("Waiting", text, again_in)
