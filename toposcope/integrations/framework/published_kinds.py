"""The kinds that are published or, where they are not ours to write, looked at."""

from dataclasses import dataclass
from typing import Final


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
