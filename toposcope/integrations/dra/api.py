"""The kinds of resource.k8s.io (v1 since Kubernetes 1.34, and what came before).

And as much of them as counts.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.dra.compute_domains import COMPUTE_DOMAIN
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.kube.discovery import Kind

GROUP: Final = "resource.k8s.io"
_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
SLICE: Final = Kind(GROUP, "ResourceSlice", "resourceslices", _VERSIONS, namespaced=False)
CLAIM: Final = Kind(GROUP, "ResourceClaim", "resourceclaims", _VERSIONS)
TEMPLATE: Final = Kind(GROUP, "ResourceClaimTemplate", "resourceclaimtemplates", _VERSIONS)
CLASS: Final = Kind(GROUP, "DeviceClass", "deviceclasses", _VERSIONS, namespaced=False)
ASKED: Final = (CLASS, TEMPLATE)
"""What says which devices a claim gets."""
READ: Final = (SLICE, CLAIM, COMPUTE_DOMAIN)
_METADATA: Final = ("name", "namespace")


def kept(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in the form of v1, without what is not read.

    A slice is some 10 kB, and every GPU node has one.
    """
    root = Field(document)
    metadata = {
        name: value for name in _METADATA if (value := (root / "metadata" / name).value) is not None
    }
    spec = (root / "spec").value
    small = {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata": metadata,
        "spec": spec,
    }
    if kind_of(document) == SLICE.key and isinstance(spec, dict):
        small["spec"] = {
            **spec,
            "devices": [
                _flat(device.value, "basic") for device in (root / "spec" / "devices").items()
            ],
        }
    elif kind_of(document) == COMPUTE_DOMAIN.key:
        small["status"] = {"nodes": (root / "status" / "nodes").value}
    else:
        small["status"] = {"allocation": (root / "status" / "allocation").value}
    return small


def _flat(device: Any, inside: str) -> Any:
    """A device of v1beta1 has all but its name one level further down."""
    below = device.get(inside) if isinstance(device, dict) else None
    return {**below, "name": device.get("name")} if isinstance(below, dict) else device
