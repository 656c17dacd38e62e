"""ComputeDomains of NVIDIA's DRA driver: nodes whose GPUs may share memory over IMEX."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.kube.discovery import Kind
from toposcope.text import plural

COMPUTE_DOMAIN: Final = Kind("resource.nvidia.com", "ComputeDomain", "computedomains", ("v1beta1",))
DRIVER: Final = "compute-domain.nvidia.com"
CHANNEL_CLASS: Final = "compute-domain-default-channel.nvidia.com"
"""The DeviceClass of a channel."""


@dataclass(frozen=True, slots=True)
class ComputeDomain:
    """One ComputeDomain, from its status."""

    name: str
    """`namespace/name`."""
    cliques: Mapping[str, str]
    """By node, `<cluster UUID>.<clique id>` as the driver read it; empty if NVLink does not leave
    the node.
    """
    waiting: frozenset[str]
    """Nodes on which the IMEX daemon is not ready."""

    @property
    def sentence(self) -> str:
        """Its name, its size and, if there are several, its cliques.

        Memory is shared only within a clique.
        """
        count = len(self.cliques)
        nodes = plural(count, "node")
        cliques = len(set(self.cliques.values()))
        sentence = f"ComputeDomain {self.name} has {count} {nodes}"
        if cliques > 1:
            sentence += f" in {cliques} cliques, which share no memory with each other"
        return sentence


def compute_domains(documents: Iterable[Mapping[str, Any]]) -> tuple[ComputeDomain, ...]:
    """The ComputeDomains that have nodes; other kinds are skipped."""
    domains = []
    for document in documents:
        if kind_of(document) != COMPUTE_DOMAIN.key:
            continue
        domain = _read(Field(document))
        if domain.cliques:
            domains.append(domain)
    return tuple(domains)


def _read(root: Field) -> ComputeDomain:
    nodes = {}
    for node in (root / "status" / "nodes").items():
        name = (node / "name").text() or ""
        nodes[name] = node

    cliques = {}
    waiting = set()
    for name, node in nodes.items():
        cliques[name] = (node / "cliqueID").text() or ""
        status = (node / "status").text()
        if status != "Ready":
            waiting.add(name)

    namespace = namespace_of(root)
    return ComputeDomain(
        name=f"{namespace}/{name_of(root)}",
        cliques=cliques,
        waiting=frozenset(waiting),
    )
