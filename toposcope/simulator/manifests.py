"""The custom resource definitions that a simulated cluster serves."""

from pathlib import Path
from typing import Any, Final

from toposcope.api.yaml_text import load

_HERE: Final = Path(__file__).parent
_SYSTEMS: Final = _HERE.parent / "integrations"
_FILE: Final = "gpu.topology_clustertopologies.yaml"


def cluster_topology_crd() -> dict[str, Any]:
    """ClusterTopology's CRD: the installed one, from the distribution or the source tree."""
    file = _HERE / "crds" / _FILE
    if not file.exists():
        file = _HERE.parents[1] / "manifests" / "crds" / _FILE
    return _load(file)


def crd(kind: str) -> dict[str, Any]:
    """A small stand-in for a kind of a system, `SYSTEM/KIND`: in the `demo` of its folder."""
    system, name = kind.split("/")
    return _load(_SYSTEMS / system / "demo" / f"{name}_crd.yaml")


def pending() -> list[dict[str, Any]]:
    """A namespace, and in it workloads that wait."""
    files = [_HERE / "pending.yaml", *sorted(_SYSTEMS.glob("*/demo/pending.yaml"))]
    documents = []
    for file in files:
        for text in file.read_text(encoding="utf-8").split("\n---\n"):
            documents.append(load(text.encode()))
    return documents


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = load(file.read_bytes())
    return document
