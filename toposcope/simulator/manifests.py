"""The custom resource definitions that a simulated cluster serves."""

from pathlib import Path
from typing import Any, Final

from toposcope.api.yaml_text import load

_HERE: Final = Path(__file__).parent
_FILE: Final = "gpu.topology_clustertopologies.yaml"


def cluster_topology_crd() -> dict[str, Any]:
    """ClusterTopology's CRD: the one that is installed, from the distribution or the source tree."""
    folders = (_HERE / "crds", _HERE.parents[1] / "manifests" / "crds")
    return _load(next(file for folder in folders if (file := folder / _FILE).exists()))


def grove_binding_crd() -> dict[str, Any]:
    """A small stand-in for Grove's ClusterTopologyBinding."""
    return _load(_HERE / "grove_binding_crd.yaml")


def kai_topology_crd() -> dict[str, Any]:
    """A small stand-in for KAI's Topology."""
    return _load(_HERE / "kai_topology_crd.yaml")


def grove_podcliqueset_crd() -> dict[str, Any]:
    """A small stand-in for Grove's PodCliqueSet."""
    return _load(_HERE / "grove_podcliqueset_crd.yaml")


def pending() -> list[dict[str, Any]]:
    """A namespace, and in it a workload for each scheduler that waits."""
    return [load(text.encode()) for text in (_HERE / "pending.yaml").read_text(encoding="utf-8").split("\n---\n")]


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = load(file.read_bytes())
    return document
