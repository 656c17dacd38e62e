"""Leases (coordination.k8s.io/v1), for leader election.

A Lease is read whole and written whole, with its resourceVersion: of two writers one gets a
conflict. Its uid goes along too, because to a kube-apiserver the PUT of a Lease that was deleted
meanwhile is a creation, whatever its resourceVersion says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, UnreachableError
from toposcope.kube.requests import get

API_VERSION: Final = "coordination.k8s.io/v1"
_RELEASED_SECONDS: Final = 1
"""The duration that client-go writes into a Lease that it releases: the API does not allow 0."""
_MOST_INT32: Final = 2**31 - 1
"""The API's maximum, which any writer may have set."""
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion")


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the API server holds it. Anybody may have written its `spec`."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def holder(self) -> str:
        """The holder; empty if there is none, or it is not a string."""
        return _text(self.spec.get("holderIdentity"))

    @property
    def seconds(self) -> int:
        """How long after its last change others must leave it alone; 0 if not set."""
        return max(0, _number(self.spec.get("leaseDurationSeconds")))

    @property
    def is_released(self) -> bool:
        """Whether its last holder released it. A Lease without holder may also have been wiped."""
        return not self.holder and self.seconds == _RELEASED_SECONDS

    def claimed(self, identity: str, seconds: int, now: datetime) -> "Lease":
        """The Lease as `identity` takes or renews it."""
        is_mine = self.holder == identity
        stamp = _stamp(now, self.spec.get("renewTime"))
        changes = {
            "holderIdentity": identity,
            "leaseDurationSeconds": seconds,
            "acquireTime": (is_mine and _text(self.spec.get("acquireTime"))) or stamp,
            "renewTime": stamp,
            "leaseTransitions": min(
                _MOST_INT32, max(0, _number(self.spec.get("leaseTransitions"))) + (not is_mine)
            ),
        }
        return Lease(self.metadata, {**self.spec, **changes})

    def given_back(self, now: datetime) -> "Lease":
        """The Lease as its holder releases it: the next contender need not wait."""
        stamp = _stamp(now, self.spec.get("renewTime"))
        changes = {
            "holderIdentity": "",
            "leaseDurationSeconds": _RELEASED_SECONDS,
            "renewTime": stamp,
        }
        return Lease(self.metadata, {**self.spec, **changes})


def new_lease(namespace: str, name: str) -> Lease:
    """A Lease to be created."""
    return Lease({"namespace": namespace, "name": name}, {})


def read(client: ApiClient, namespace: str, name: str) -> Lease | None:
    """The Lease; None if there is none. Raises KubeError."""
    try:
        return _decoded(client.call(get(f"{_collection(namespace)}/{name}")))
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


def write(client: ApiClient, lease: Lease) -> Lease:
    """Create the Lease, or replace the version it was read as; return what is stored now.

    Raises ApiError with `conflict` or `not_found` when somebody else changed, made or deleted it
    meanwhile, and KubeError as every request does.
    """
    return _decoded(client.call(write_request(lease)))


def write_request(lease: Lease) -> Request:
    """The request that stores a Lease."""
    body = {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": lease.metadata,
        "spec": lease.spec,
    }
    collection = _collection(lease.metadata["namespace"])
    content = msgspec.json.encode(body)
    if "resourceVersion" in lease.metadata:
        return Request("PUT", f"{collection}/{lease.metadata['name']}", {}, content)
    return Request("POST", collection, {}, content)


def _collection(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/leases"


def _decoded(answer: Any) -> Lease:
    """The Lease in an answer, of which the client has seen that it is an object.

    Raises UnreachableError where its metadata lacks what an API server always writes.
    """
    metadata = answer["metadata"]
    if not all(metadata.get(key) for key in _METADATA):
        text = str(answer)[:80]
        raise UnreachableError(f"the answer to a request for a Lease is not a Lease: {text!r}")
    return Lease(metadata, answer.get("spec") or {})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _stamp(now: datetime, last: Any) -> str:
    """`now` as the API writes it, and never equal to `last`: a renewal must change something."""
    stamp = _written(now)
    return _written(now + timedelta(microseconds=1)) if stamp == last else stamp


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
