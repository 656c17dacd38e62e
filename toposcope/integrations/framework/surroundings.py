"""Objects of the cluster that decide what becomes of the pods of a document, as far as known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toposcope.kube.discovery import Kind

Objects = Mapping[tuple[str, str], tuple[Mapping[str, Any], ...]]
"""By API group and kind."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a document: objects of the cluster, and of the files beside it."""

    objects: Objects = field(default_factory=dict)
    """All of a kind in the cluster, or the kind is missing here."""
    incomplete: frozenset[tuple[str, str]] = frozenset()
    """Kinds of which only those of the files are known; the cluster may have more."""

    def knows_all(self, kind: Kind) -> bool:
        """Whether there are no objects of this kind but those of `each`."""
        return kind.key in self.objects and kind.key not in self.incomplete

    def each(self, kind: Kind) -> Iterator[Mapping[str, Any]]:
        """The known objects of a kind, whatever their namespace."""
        yield from self.objects.get(kind.key, ())


NOTHING_KNOWN = Surroundings()
