"""What running pods require of their places: the base of `REQUIRING` in a system's `requiring.py`.

A scheduler's own object says it, such as the PodGroup that pods name, or the pods say it in their
annotations. Planning and `explain` compare that with where the pods run.
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
    """Only pods with the same value of this label, or without it too, are kept out; empty: all."""


@dataclass(frozen=True, slots=True, eq=False)
class RequiredPart:
    """Pods that have to share one domain of a level."""

    level: str
    """The label key of the level, or its domain. Empty: it cannot be read, see `unread`."""
    pods: tuple[ViewedPod, ...]
    """Those that exist, with a node or without."""
    name: str = ""
    """What an admin calls the part; empty: all pods of the object, or of the gang."""
    least: int = 0
    """How many pods have to exist; 0: unknown."""
    by_value: bool = False
    """Whether a domain is a value of the label alone, as in pod affinity, whatever level it is."""
    apart: ApartFrom | None = None
    places: Mapping[str, str] | None = None
    """The domain by the name of a node, where no label says it; nodes in no domain are missing."""
    key: str = ""
    """What `check` calls the level instead of a label key, where no label says it."""
    unread: str = ""
    """What cannot be read, so that the level is unknown: a kind or an object."""


@dataclass(frozen=True)
class RequiringObjects:
    """The objects that say what pods require, as far as they could be read, and the nodes."""

    documents: Mapping[tuple[str, str], Mapping[ObjectName, Mapping[str, Any]]] = field(
        default_factory=dict
    )
    """By API group and kind."""
    forbidden: frozenset[tuple[str, str]] = frozenset()
    """The kinds that may not be listed."""
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
        """One object, without findings; None where it is not known."""
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
        """What objects of a kind require of the pods that name them, as `read` reads one.

        Where an object cannot be read, or a field of it, its pods get a part without a level.
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
    """The objects that say it."""
    fields: tuple[str, ...] = ()
    """What is kept of their `spec`."""

    def is_needed(self, root: Field) -> bool:
        """Whether an object of these kinds has any part in it; others are not kept."""
        del root
        return True

    def of_objects(
        self, pods: Sequence[ViewedPod], objects: RequiringObjects
    ) -> Iterator[RequiredPart]:
        """What the objects that pods name require; `pods` are all of the cluster."""
        del pods, objects
        yield from ()

    def of_pods(self, pods: Sequence[ViewedPod]) -> Iterator[RequiredPart]:
        """What annotations of the pods of one gang require."""
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
