"""What published resources share: their place, their owner, and the result of publishing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND, MANAGED_BY, TOPOSCOPE, Topology
from toposcope.api.label_keys import HOSTNAME
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError, RefusedError

MANAGER: Final = "toposcope-controller"
_MAX_MESSAGE_CHARACTERS: Final = 1024
"""As in the CRD."""

RETRY_SECONDS: Final = 5.0
_TRY_AGAIN: Final = frozenset({401, 404, 408, 409, 429})
"""Temporary client errors: 404 is a CRD that was removed, 409 a change since the read, which the
next pass sees.
"""
_SERVER_ERROR: Final = 500
_UNTYPED: Final = "failed to create typed patch"
"""kube-apiserver reports fields that the schema lacks as an internal error."""


def can_pass(error: ApiError) -> bool:
    """Whether the same request may succeed later without any other change."""
    unavailable = error.status >= _SERVER_ERROR and _UNTYPED not in error.message
    return unavailable or error.status in _TRY_AGAIN


@dataclass(frozen=True, slots=True)
class Published:
    """One published resource.

    `reason` is empty when it is in sync, else `Conflict`, `Rejected`, `NotServed`, `Waiting` or
    `DryRun`. `again_in` is the number of seconds until a retry makes sense; None if the usual
    resync is soon enough.
    """

    api_version: str
    kind: str
    name: str
    reason: str = ""
    message: str = ""
    again_in: float | None = None
    diff: str = ""
    """Everything that a dry run would change; `message` has what fits into a status.
    """
    retry_at: datetime | None = None
    """When a rejected write is retried."""

    @property
    def is_in_sync(self) -> bool:
        """Whether the resource has the levels of its ClusterTopology."""
        return not self.reason

    @property
    def text(self) -> str:
        """The message with the time of the next try, cut to the length that the CRD allows."""
        if self.retry_at is None:
            return self.message
        when = f"; next try at {self.retry_at:%H:%M:%S} UTC"
        return self.message[: _MAX_MESSAGE_CHARACTERS - len(when)] + when

    @property
    def handle(self) -> str:
        """Its name for `kubectl get`, with the group, because several have a Topology."""
        group, _, _ = self.api_version.partition("/")
        return f"{self.kind.lower()}.{group}/{self.name}"


@dataclass(frozen=True, slots=True)
class Target:
    """An object that may be published, and the possible results.

    `option` is its field in `spec.publish`.
    """

    option: str
    api_version: str
    kind: str
    plural: str
    name: str

    @property
    def collection(self) -> str:
        """Path of all objects of the kind."""
        return f"/apis/{self.api_version}/{self.plural}"

    @property
    def path(self) -> str:
        """Path of the object."""
        return f"{self.collection}/{self.name}"

    def body(self, topology: Topology, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The object to write."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": owned_metadata(topology),
            "spec": spec,
        }

    def in_sync(self, message: str = "") -> Published:
        """The object has the levels of its ClusterTopology."""
        return Published(self.api_version, self.kind, self.name, message=message)

    def not_in_sync(self, reason: str, message: str, again_in: float | None = None) -> Published:
        """The object does not have the levels, for this reason."""
        return Published(
            api_version=self.api_version,
            kind=self.kind,
            name=self.name,
            reason=reason,
            message=message[:_MAX_MESSAGE_CHARACTERS],
            again_in=again_in,
        )

    def conflict(self) -> Published:
        """An object of that name exists and was not created by Toposcope."""
        text = (
            f"a {self.kind} named {self.name} exists and was not created by Toposcope; "
            "delete it, or give the ClusterTopology another name, "
            f"or set spec.publish.{self.option} to Never"
        )
        return self.not_in_sync("Conflict", text)

    def failed(self, error: ApiError) -> Published:
        """A request failed, in the server's words.

        `Waiting` where the same request may succeed later.
        """
        again_in = error.retry_after or None
        if can_pass(error):
            answer = self.not_in_sync("Waiting", error.message, again_in or RETRY_SECONDS)
        else:
            answer = self.not_in_sync("Rejected", error.message, again_in)

        if isinstance(error, RefusedError):
            return replace(answer, retry_at=error.retry_at)
        return answer


def _example() -> Mapping[str, Any]:
    """One level, in the form of any system."""
    return {"levels": [{"domain": "host", "key": HOSTNAME, "nodeLabel": HOSTNAME}]}


@dataclass(frozen=True, slots=True)
class PublishedKind(Kind):
    """A kind that is published, or read because others publish it."""

    option: str
    """Its field in `spec.publish`."""
    is_namespaced: bool = field(default=False, kw_only=True)
    example: Mapping[str, Any] = field(default_factory=_example, kw_only=True, compare=False)
    """A spec that every version of its schema accepts; unknown fields are ignored."""
    verdict_field: str = field(default="", kw_only=True)
    """The field of its status that its publisher reads."""

    def target(self, name: str, version: str = "") -> Target:
        """The object of this name in a version; default: the preferred one."""
        return Target(self.option, self.api_version(version), self.kind, self.plural, name)


def owned_metadata(topology: Topology) -> dict[str, Any]:
    """The metadata of a resource published from `topology`: owner and managed-by label."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": topology.name,
        "uid": topology.uid,
        "controller": True,
    }
    return {
        "name": topology.name,
        "labels": {MANAGED_BY: TOPOSCOPE},
        "ownerReferences": [owner],
    }


def is_ours(document: Mapping[str, Any], topology: Topology) -> bool:
    """Whether an object was published from this topology, not from an earlier namesake."""
    metadata = document["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != TOPOSCOPE:
        return False
    for owner in metadata.get("ownerReferences") or ():
        if owner["uid"] == topology.uid:
            return True
    return False


def finalizers(document: Mapping[str, Any]) -> list[str]:
    """Each finalizer of the object, as `finalizer NAME`."""
    names = document["metadata"].get("finalizers") or ()
    return [f"finalizer {name}" for name in names]
