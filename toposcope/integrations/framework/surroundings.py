"""Objects of the cluster that affect the pods of a document, as far as known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toposcope.kube.discovery import Kind

Objects = Mapping[tuple[str, str], tuple[Mapping[str, Any], ...]]
"""By API group and kind."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The objects around a document, from the cluster and from the files beside it."""

    objects: Objects = field(default_factory=dict)
    """All objects of a kind in the cluster. A kind that was not read is missing here."""
    incomplete: frozenset[tuple[str, str]] = frozenset()
    """Kinds of which only objects in files are known; the cluster may have more."""

    def knows_all(self, kind: Kind) -> bool:
        """Whether `each` returns all objects of this kind."""
        return kind.key in self.objects and kind.key not in self.incomplete

    def each(self, kind: Kind) -> Iterator[Mapping[str, Any]]:
        """The known objects of a kind, whatever their namespace."""
        yield from self.objects.get(kind.key, ())


NOTHING_KNOWN = Surroundings()
