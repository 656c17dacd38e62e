"""What every published resource has in common: where it is, who owns it, and what is said about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND, MANAGED_BY, TOPOSCOPE, Topology
from toposcope.kube.errors import ApiError

MANAGER: Final = "toposcope-controller"
_LONGEST_MESSAGE: Final = 1024
"""As in the CRD."""

_RETRY_SECONDS: Final = 5.0
_TRY_AGAIN: Final = frozenset({401, 404, 408, 409, 429})
"""Client errors that pass: 404 is a CRD that went, 409 a change since we looked, which the next look understands."""
_SERVER_ERROR: Final = 500
_UNTYPED: Final = "failed to create typed patch"
"""A kube-apiserver calls fields that the schema does not know an internal error of its own."""


@dataclass(frozen=True, slots=True)
class Published:
    """One published resource.

    `reason` is empty when it is in sync, else `Conflict`, `Rejected`, `NotServed`, `Waiting` or `DryRun`. `again_in`
    tells in how many seconds another look is worth while; None: the usual resync is soon enough.
    """

    api_version: str
    kind: str
    name: str
    reason: str = ""
    message: str = ""
    again_in: float | None = None
    diff: str = ""
    """Of a rehearsal: all of what would change; `message` has as much of it as a status can hold."""

    @property
    def in_sync(self) -> bool:
        """Whether the resource says what its ClusterTopology says."""
        return not self.reason

    @property
    def handle(self) -> str:
        """What `kubectl get` calls it: KAI's and Kueue's kinds have one name."""
        return f"{self.kind.lower()}.{self.api_version.partition('/')[0]}/{self.name}"


@dataclass(frozen=True, slots=True)
class Target:
    """One object that may be published, and the words about it. `option` is its field in `spec.publish`."""

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
        """The object as it is written."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": owned_metadata(topology),
            "spec": spec,
        }

    def in_sync(self, message: str = "") -> Published:
        """Say that the object says what its ClusterTopology says."""
        return Published(self.api_version, self.kind, self.name, "", message)

    def not_in_sync(self, reason: str, message: str, again_in: float | None = None) -> Published:
        """Say why it does not."""
        return Published(self.api_version, self.kind, self.name, reason, message[:_LONGEST_MESSAGE], again_in)

    def taken(self) -> Published:
        """Say that somebody else has an object of the name."""
        text = (
            f"a {self.kind} named {self.name} exists and was not made by Toposcope; "
            f"delete it, or give the ClusterTopology another name, or set spec.publish.{self.option} to Never"
        )
        return self.not_in_sync("Conflict", text)

    def failed(self, error: ApiError) -> Published:
        """Say, in the server's words, that a request failed, and whether the same one may succeed later."""
        unavailable = error.status >= _SERVER_ERROR and _UNTYPED not in error.message
        if unavailable or error.status in _TRY_AGAIN:
            return self.not_in_sync("Waiting", error.message, error.retry_after or _RETRY_SECONDS)
        return self.not_in_sync("Rejected", error.message)


def owned_metadata(topology: Topology) -> dict[str, Any]:
    """The metadata of a resource published from `topology`: deleted with it, and recognisably ours."""
    return {
        "name": topology.name,
        "labels": {MANAGED_BY: TOPOSCOPE},
        "ownerReferences": [
            {"apiVersion": API_VERSION, "kind": KIND, "name": topology.name, "uid": topology.uid, "controller": True}
        ],
    }


def is_ours(document: Mapping[str, Any], topology: Topology) -> bool:
    """Whether an existing object was published from this very topology."""
    metadata = document["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return (metadata.get("labels") or {}).get(MANAGED_BY) == TOPOSCOPE and any(o["uid"] == topology.uid for o in owners)


def finalizers(document: Mapping[str, Any]) -> list[str]:
    """Each finalizer of the object, in words."""
    return [f"finalizer {name}" for name in document["metadata"].get("finalizers") or ()]


@dataclass(frozen=True, slots=True)
class PublishedKind:
    """One kind of a scheduler's project; `versions` preferred first."""

    group: str
    versions: tuple[str, ...]
    plural: str


GROVE_BINDINGS: Final = PublishedKind("grove.io", ("v1alpha1",), "clustertopologybindings")
GROVE_TOPOLOGIES: Final = PublishedKind("grove.io", ("v1alpha1",), "clustertopologies")
"""What came before the binding, in two shapes."""
KAI_TOPOLOGIES: Final = PublishedKind("kai.scheduler", ("v1alpha1",), "topologies")
KUEUE_TOPOLOGIES: Final = PublishedKind("kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), "topologies")
"""Flavors and other kinds of the group have versions in which there is no Topology."""

ALL: Final = (GROVE_BINDINGS, GROVE_TOPOLOGIES, KAI_TOPOLOGIES, KUEUE_TOPOLOGIES)
