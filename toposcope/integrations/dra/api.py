"""The kinds of resource.k8s.io, and the fields of their objects that are read.

v1 is served since Kubernetes 1.34; the versions before it are read too.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.dra.compute_domains import COMPUTE_DOMAIN
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.kube.discovery import Kind

GROUP: Final = "resource.k8s.io"
_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
SLICE: Final = Kind(GROUP, "ResourceSlice", "resourceslices", _VERSIONS, is_namespaced=False)
CLAIM: Final = Kind(GROUP, "ResourceClaim", "resourceclaims", _VERSIONS)
TEMPLATE: Final = Kind(GROUP, "ResourceClaimTemplate", "resourceclaimtemplates", _VERSIONS)
CLASS: Final = Kind(GROUP, "DeviceClass", "deviceclasses", _VERSIONS, is_namespaced=False)
ASKED: Final = (CLASS, TEMPLATE)
"""The kinds that decide which devices a claim gets."""
READ: Final = (SLICE, CLAIM, COMPUTE_DOMAIN)
_METADATA: Final = ("name", "namespace")


def kept(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in the form of v1, with only the fields that are read.

    A slice is some 10 kB, and every GPU node has one.
    """
    root = Field(document)
    kind = kind_of(document)
    spec = (root / "spec").value
    small = {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata": _metadata(root),
        "spec": spec,
    }

    if kind == SLICE.key and isinstance(spec, dict):
        devices = (root / "spec" / "devices").items()
        small["spec"] = {**spec, "devices": [_flat(device.value) for device in devices]}
        return small

    status = root / "status"
    read = "nodes" if kind == COMPUTE_DOMAIN.key else "allocation"
    small["status"] = {read: (status / read).value}
    return small


def text_at(root: Field, name: str) -> str:
    """The text of a property; empty if missing."""
    return (root / name).text() or ""


def _metadata(root: Field) -> dict[str, Any]:
    metadata = {}
    for name in _METADATA:
        value = (root / "metadata" / name).value
        if value is not None:
            metadata[name] = value
    return metadata


def _flat(device: Any) -> Any:
    """The device in the form of v1: in v1beta1 all but its name is within `basic`."""
    if not isinstance(device, dict):
        return device
    basic = device.get("basic")
    if not isinstance(basic, dict):
        return device
    return {**basic, "name": device.get("name")}
