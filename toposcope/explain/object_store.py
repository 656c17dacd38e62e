"""The objects around a workload, as they are in the cluster or in files, and a word on those that cannot be seen."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toposcope.explain.kinds import AROUND, POD, SUBJECTS, Kind
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.pods import kind_of

Object = Mapping[str, Any]

_KEPT = {kind.key: kind for kind in (*SUBJECTS, *AROUND)}


@dataclass(frozen=True, slots=True)
class Ref:
    """One object's place."""

    group: str
    kind: str
    namespace: str
    """Empty for what is in none."""
    name: str

    @property
    def handle(self) -> str:
        """`podcliqueset/llm -n ml`, as kubectl takes it."""
        return f"{self.kind.lower()}/{self.name}" + (f" -n {self.namespace}" if self.namespace else "")


@dataclass(slots=True)
class ObjectStore:
    """Objects by their place. `unseen` says of which kinds nothing is known, and why: those are not absent."""

    objects: dict[Ref, Object] = field(default_factory=dict)
    unseen: dict[tuple[str, str], str] = field(default_factory=dict)
    namespace: str | None = None
    """The namespace of whoever asks; None: files have none."""

    def put(self, document: Object) -> None:
        """Keep an object."""
        self.objects[place_of(document)] = document

    def of_kind(self, kind: Kind, namespace: str = "") -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind, in one namespace where one is given."""
        for ref, document in self.objects.items():
            if (ref.group, ref.kind) == kind.key and (not namespace or ref.namespace == namespace):
                yield ref, document

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """One object; None where it is not there, or not seen."""
        return self.objects.get(Ref(kind.group, kind.kind, namespace if kind.namespaced else "", name))

    def hidden(self, *kinds: Kind) -> str:
        """Why it is not known which objects of these kinds there are; empty when one of them is known."""
        words = [self.unseen.get(kind.key, "") for kind in kinds]
        return words[0] if all(words) else ""


class FileCollector:
    """Fills a shelf with what passes by while files are read; of pods only the one that is asked about."""

    def __init__(self, pod: str | None) -> None:
        self._pod = pod
        self._store = ObjectStore()

    def wants(self, group: str, kind: str) -> bool:
        """Whether objects of the kind are kept at all: then `put` is called with each."""
        return (group, kind) in _KEPT or (self._pod is not None and (group, kind) == POD.key)

    def put(self, document: Object) -> None:
        """Keep an object."""
        place = place_of(document)
        if (place.group, place.kind) != POD.key or place.name == self._pod:
            self._store.put(document)

    def store(self) -> ObjectStore:
        """All that was kept. Files that hold nothing of a kind say nothing about it."""
        seen = {(ref.group, ref.kind) for ref in self._store.objects}
        for kind in _KEPT.values():
            if kind.key not in seen:
                self._store.unseen[kind.key] = f"there is no {kind.kind} in the files (kubectl get {kind.name} -A)"
        return self._store


def place_of(document: Object) -> Ref:
    """Where an object is; whatever is malformed counts as not said."""
    group, kind = kind_of(document)
    metadata = Field(document) / "metadata"
    known = _KEPT.get((group, kind))
    namespace = (metadata / "namespace").text() or ""
    if not namespace and (known is None or known.namespaced):
        namespace = "default"
    return Ref(group, kind, namespace, (metadata / "name").text() or "")


def owner_of(document: Object) -> Ref | None:
    """The object that controls this one, or its only owner: KAI's PodGroups name theirs without calling it so."""
    references = list((Field(document) / "metadata" / "ownerReferences").items())
    chosen = [reference for reference in references if reference.value and (reference / "controller").flag()]
    if not chosen and len(references) == 1:
        chosen = references
    if not chosen:
        return None
    group, kind = kind_of(chosen[0].value)
    name = (chosen[0] / "name").text()
    return Ref(group, kind, place_of(document).namespace, name) if kind and name else None


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object."""

    type: str
    status: str
    reason: str
    message: str


def conditions(document: Object, where: str = "conditions") -> tuple[Condition, ...]:
    """The conditions of an object's status."""
    return tuple(
        Condition(
            (each / "type").text() or "",
            (each / "status").text() or "",
            (each / "reason").text() or "",
            (each / "message").text() or "",
        )
        for each in (Field(document) / "status" / where).items()
    )


def condition(document: Object, kind: str) -> Condition | None:
    """The condition of one type."""
    return next((each for each in conditions(document) if each.type == kind), None)


def names(refs: Iterable[Ref]) -> list[str]:
    """Their names, sorted."""
    return sorted({ref.name for ref in refs})
