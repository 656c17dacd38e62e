"""ComputeDomains of NVIDIA's DRA driver.

The nodes whose GPUs may share memory over IMEX, and each one's clique.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.kube.discovery import Kind

COMPUTE_DOMAIN: Final = Kind("resource.nvidia.com", "ComputeDomain", "computedomains", ("v1beta1",))
DRIVER: Final = "compute-domain.nvidia.com"


@dataclass(frozen=True, slots=True)
class ComputeDomain:
    """One ComputeDomain, as its status says."""

    name: str
    """`namespace/name`."""
    cliques: Mapping[str, str]
    """By node: `<cluster UUID>.<clique id>` as the driver read it; empty where NVLink ends at the
    node.
    """
    waiting: frozenset[str]
    """Nodes on which the IMEX daemon is not ready."""

    @property
    def sentence(self) -> str:
        """Its name, its size and, where there are several, its cliques.

        Memory is shared within each of them only.
        """
        cliques = len(set(self.cliques.values()))
        split = f" in {cliques} cliques, between which no memory is shared" if cliques > 1 else ""
        nodes = "1 node" if len(self.cliques) == 1 else f"{len(self.cliques)} nodes"
        return f"ComputeDomain {self.name} has {nodes}{split}"


def compute_domains(documents: Iterable[Mapping[str, Any]]) -> tuple[ComputeDomain, ...]:
    """Those that have nodes; other kinds are skipped."""
    return tuple(domain for document in documents for domain in _read(document) if domain.cliques)


def _read(document: Mapping[str, Any]) -> Iterator[ComputeDomain]:
    if kind_of(document) == COMPUTE_DOMAIN.key:
        root = Field(document)
        nodes = {(node / "name").text() or "": node for node in (root / "status" / "nodes").items()}
        cliques = {name: (node / "cliqueID").text() or "" for name, node in nodes.items()}
        waiting = frozenset(
            name for name, node in nodes.items() if (node / "status").text() != "Ready"
        )
        yield ComputeDomain(f"{namespace_of(root)}/{name_of(root)}", cliques, waiting)
