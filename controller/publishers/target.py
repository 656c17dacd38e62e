"""What every published resource has in common: who owns it, and what is said about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.spec import API_VERSION, KIND, Topology

MANAGER: Final = "toposcope-controller"
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_TOPOSCOPE: Final = "toposcope"


@dataclass(frozen=True, slots=True)
class Published:
    """One published resource; `reason` is empty when it is in sync, else `Conflict`, `Rejected` or `Waiting`."""

    api_version: str
    kind: str
    name: str
    reason: str = ""
    message: str = ""

    @property
    def in_sync(self) -> bool:
        """Whether the resource says what its ClusterTopology says."""
        return not self.reason


def owned_metadata(topology: Topology) -> dict[str, Any]:
    """The metadata of a resource published from `topology`: deleted with it, and recognisably ours."""
    return {
        "name": topology.name,
        "labels": {_MANAGED_BY: _TOPOSCOPE},
        "ownerReferences": [
            {"apiVersion": API_VERSION, "kind": KIND, "name": topology.name, "uid": topology.uid, "controller": True}
        ],
    }


def is_ours(document: Mapping[str, Any], topology: Topology) -> bool:
    """Whether an existing object was published from this very topology."""
    metadata = document["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return (metadata.get("labels") or {}).get(_MANAGED_BY) == _TOPOSCOPE and any(
        o["uid"] == topology.uid for o in owners
    )
