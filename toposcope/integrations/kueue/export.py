"""Kueue's `Topology`: label keys, in one of three API versions with the same fields."""

from typing import Any, Final

from toposcope.integrations.framework.export import ExportError, Hierarchy, checked
from toposcope.integrations.kai import export as kai
from toposcope.topology.catalogue import BUILT_IN, Catalogue

VERSIONS: Final = ("v1beta2", "v1beta1", "v1alpha1")
"""Newest first: since v0.15; v0.14; up to v0.13."""
_FEW: Final = 8
"""All that Kueue takes before v0.13 (v1alpha1)."""


def write(hierarchy: Hierarchy, version: str = VERSIONS[0]) -> dict[str, Any]:
    """The Topology. Raises Unwritable."""
    levels = checked(hierarchy).levels
    if version == VERSIONS[-1] and len(levels) > _FEW:
        raise ExportError(
            f"there are {len(levels)} levels, and Kueue's v1alpha1 takes {_FEW}; use --without or v1beta2"
        )
    entries = [{"nodeLabel": level.key} for level in levels]
    return kai.topology(f"kueue.x-k8s.io/{version}", hierarchy.name, entries)


def read(document: Any, catalogue: Catalogue = BUILT_IN) -> Hierarchy:
    """Any version. Raises Unreadable."""
    return kai.read(document, catalogue)
