"""The objects around a workload, from the cluster or from files, and why some of them are unknown."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from toposcope.explain.kinds import AROUND, POD, SUBJECTS
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.features import Kind, Object, Ref

_KEPT = {kind.key: kind for kind in (*SUBJECTS, *AROUND)}


@dataclass(slots=True)
class ObjectStore:
    """Objects by reference. `unread` says of which kinds nothing is known, and why: those are not absent."""

    objects: dict[Ref, Object] = field(default_factory=dict)
    unread: dict[tuple[str, str], str] = field(default_factory=dict)
    namespace: str | None = None
    """The namespace that was read; None: files, which may hold several."""

    def put(self, document: Object) -> None:
        """Keep an object."""
        self.objects[ref_of(document)] = document

    def of_kind(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind."""
        for ref, document in self.objects.items():
            if (ref.group, ref.kind) == kind.key:
                yield ref, document

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """One object; None where it does not exist or cannot be read."""
        return self.objects.get(Ref(kind.group, kind.kind, namespace if kind.namespaced else "", name))

    def why_unknown(self, *kinds: Kind) -> str:
        """Why nothing is known about any of these kinds; empty when one of them is known."""
        reasons = [self.unread.get(kind.key, "") for kind in kinds]
        return reasons[0] if all(reasons) else ""


class FileCollector:
    """Fills a store with the objects that pass by while files are read; of pods only `pod`, the one asked about."""

    def __init__(self, pod: str | None) -> None:
        self._pod = pod
        self._store = ObjectStore()

    def wants(self, group: str, kind: str) -> bool:
        """Whether objects of the kind are kept at all: then `put` is called with each."""
        return (group, kind) in _KEPT or (self._pod is not None and (group, kind) == POD.key)

    def put(self, document: Object) -> None:
        """Keep an object."""
        ref = ref_of(document)
        if (ref.group, ref.kind) != POD.key or ref.name == self._pod:
            self._store.objects[ref] = document

    def store(self) -> ObjectStore:
        """All that was kept. Files that hold no object of a kind say nothing about that kind."""
        seen = {(ref.group, ref.kind) for ref in self._store.objects}
        for kind in _KEPT.values():
            if kind.key not in seen:
                self._store.unread[kind.key] = f"the files have no {kind.kind} (kubectl get {kind.name} -A)"
        return self._store


def ref_of(document: Object) -> Ref:
    """What identifies an object; malformed fields count as missing."""
    group, kind = kind_of(document)
    metadata = Field(document) / "metadata"
    known = _KEPT.get((group, kind))
    namespace = (metadata / "namespace").text() or ""
    if not namespace and (known is None or known.namespaced):
        namespace = "default"
    return Ref(group, kind, namespace, (metadata / "name").text() or "")


def owner_of(document: Object) -> Ref | None:
    """The object's controller, or else its only owner: KAI does not mark the owners of PodGroups as controllers."""
    references = list((Field(document) / "metadata" / "ownerReferences").items())
    chosen = [reference for reference in references if reference.value and (reference / "controller").flag()]
    if not chosen and len(references) == 1:
        chosen = references
    if not chosen:
        return None
    group, kind = kind_of(chosen[0].value)
    name = (chosen[0] / "name").text()
    return Ref(group, kind, ref_of(document).namespace, name) if kind and name else None
