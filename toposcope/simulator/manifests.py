"""The custom resource definitions that a simulated cluster serves."""

from pathlib import Path
from typing import Any, Final

from toposcope.api.yaml_text import load

_HERE: Final = Path(__file__).parent
_FILE: Final = "gpu.topology_clustertopologies.yaml"


def cluster_topology_crd() -> dict[str, Any]:
    """ClusterTopology's CRD: the installed one, from the distribution or the source tree."""
    file = _HERE / "crds" / _FILE
    if not file.exists():
        file = _HERE.parents[1] / "manifests" / "crds" / _FILE
    return _load(file)


def crd(kind: str) -> dict[str, Any]:
    """A small stand-in: `grove_binding`, `grove_podcliqueset` or `kai_topology`."""
    return _load(_HERE / f"{kind}_crd.yaml")


def pending() -> list[dict[str, Any]]:
    """A namespace, and in it a workload for each scheduler that waits."""
    return [
        load(text.encode())
        for text in (_HERE / "pending.yaml").read_text(encoding="utf-8").split("\n---\n")
    ]


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = load(file.read_bytes())
    return document
