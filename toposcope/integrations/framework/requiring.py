"""What running pods require of their placement: the base of `REQUIRING` in `requiring.py`.

The requirement is in a scheduler's own object, such as the PodGroup that pods name, or in the pods'
annotations. Planning and `explain` compare it with where the pods run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toposcope.integrations.framework.document import (
    MALFORMED,
    Field,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.placement import ViewedNode, ViewedPod
from toposcope.kube.discovery import Kind

ObjectName = tuple[str, str]
"""Namespace and name."""
PodsByObject = Mapping[ObjectName, Sequence[ViewedPod]]
"""The pods that name each object."""


@dataclass(frozen=True, slots=True)
class ApartFrom:
    """Pods of other groups that must not share the domain: those with this label."""

    label: str
    """Its value is the group."""
    in_all_namespaces: bool
    among: str = ""
    """Keeps out only pods with the same value of this label, or without the label; empty for all.
    """


@dataclass(frozen=True, slots=True, eq=False)
class RequiredPart:
    """Pods that have to share one domain of a level."""

    level: str
    """The label key of the level, or its domain; empty if it cannot be read, see `unread`."""
    pods: tuple[ViewedPod, ...]
    """The existing pods, with or without a node."""
    name: str = ""
    """The name of the part for people; empty for all pods of the object, or of the gang."""
    least: int = 0
    """How many pods must exist; 0 if unknown."""
    by_value: bool = False
    """Whether a domain is a value of the label alone, as in pod affinity, whatever level it is."""
    apart: ApartFrom | None = None
    places: Mapping[str, str] | None = None
    """The domain of each node by name, if no label has it; nodes in no domain are missing."""
    key: str = ""
    """The level's name in `check` instead of a label key, if no label has it."""
    unread: str = ""
    """The kind or object that cannot be read, which makes the level unknown."""


@dataclass(frozen=True)
class RequiringObjects:
    """The objects that set what pods require, as far as they could be read, and the nodes."""

    documents: Mapping[tuple[str, str], Mapping[ObjectName, Mapping[str, Any]]] = field(
        default_factory=dict
    )
    """Objects by API group and kind."""
    forbidden: frozenset[tuple[str, str]] = frozenset()
    """The kinds that could not be listed for lack of permission."""
    nodes: Mapping[str, ViewedNode] = field(default_factory=dict)

    @staticmethod
    def of(
        documents: Iterable[Mapping[str, Any]],
        nodes: Mapping[str, ViewedNode],
        forbidden: Iterable[tuple[str, str]] = (),
    ) -> "RequiringObjects":
        """The objects of these documents."""
        by_kind: dict[tuple[str, str], dict[ObjectName, Mapping[str, Any]]] = {}
        for document in documents:
            root = Field(document)
            name = namespace_of(root), name_of(root)
            of_kind = by_kind.setdefault(kind_of(document), {})
            of_kind[name] = document
        return RequiringObjects(by_kind, frozenset(forbidden), nodes)

    def find(self, kind: Kind, name: ObjectName) -> Field | None:
        """One object, without findings; None if unknown."""
        of_kind = self.documents.get(kind.key, {})
        document = of_kind.get(name)
        return None if document is None else Field(document)

    def every(self, kind: Kind) -> Mapping[str, Mapping[str, Any]]:
        """All objects of a kind without namespaces, by name."""
        named = {}
        of_kind = self.documents.get(kind.key, {})
        for (_, name), document in of_kind.items():
            named[name] = document
        return named

    def parts(
        self,
        kind: Kind,
        pods: PodsByObject,
        read: Callable[[Field, tuple[ViewedPod, ...]], Iterator[RequiredPart]],
    ) -> Iterator[RequiredPart]:
        """What objects of a kind require of the pods that name them, by `read` for each.

        If an object or one of its fields cannot be read, its pods get a part without a level.
        """
        for name, named in pods.items():
            members = tuple(named)
            root = self.find(kind, name)
            if root is None:
                if kind.key in self.forbidden:
                    yield RequiredPart("", members, unread=kind.name)
                continue
            yield from read(root, members)
            for finding in root.findings:
                if finding.rule == MALFORMED:
                    handle = f"{finding.field} of {kind.kind} {'/'.join(name)}"
                    yield RequiredPart("", members, unread=handle)


class Requiring:
    """What one system's objects and pods require. A system overrides what it has."""

    kinds: tuple[Kind, ...] = ()
    """The kinds of these objects."""
    fields: tuple[str, ...] = ()
    """The fields of their `spec` that are kept."""
    constraint: str = ""
    """The field of a constraint, in `spec` and in each entry of the lists `parts_in`."""
    parts_in: tuple[str, ...] = ()
    """The fields of `spec` that list parts with constraints of their own."""

    def is_needed(self, root: Field) -> bool:
        """Whether an object of these kinds requires anything; others are not kept."""
        spec = root / "spec"
        places = [spec]
        for parts in self.parts_in:
            places += (spec / parts).items()
        return any(place / self.constraint for place in places)

    def of_objects(
        self, pods: Sequence[ViewedPod], objects: RequiringObjects
    ) -> Iterator[RequiredPart]:
        """What the objects that pods name require; `pods` are all of the cluster."""
        del pods, objects
        yield from ()

    def of_pods(self, pods: Sequence[ViewedPod]) -> Iterator[RequiredPart]:
        """What annotations on the pods of one gang require."""
        del pods
        yield from ()


def by_object(
    pods: Iterable[ViewedPod], name: Callable[[ViewedPod], str | None]
) -> dict[ObjectName, list[ViewedPod]]:
    """The pods that name an object of their namespace."""
    named: dict[ObjectName, list[ViewedPod]] = {}
    for pod in pods:
        text = name(pod)
        if text:
            key = pod.namespace, text
            named.setdefault(key, []).append(pod)
    return named


def annotated(
    pods: Iterable[ViewedPod], annotation: str, group: Callable[[ViewedPod], str]
) -> Iterator[tuple[str, tuple[ViewedPod, ...]]]:
    """The level in an annotation of pods, and the pods of each group that have it."""
    groups: dict[tuple[str, str, str], list[ViewedPod]] = {}
    for pod in pods:
        level = pod.annotations.get(annotation)
        if level:
            key = pod.namespace, group(pod), level
            groups.setdefault(key, []).append(pod)
    for (_, _, level), members in groups.items():
        yield level, tuple(members)
