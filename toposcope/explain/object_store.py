"""The objects that an explanation reads, and why some of them are unknown."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from toposcope.integrations.framework.document import Field, kind_of, name_of
from toposcope.integrations.framework.features import Object, Ref
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.registry import waiting
from toposcope.kube.client import ApiClient
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.snapshot.problems import Progress, silent

POD: Final = Kind("", "Pod", "pods", ("v1",), short=("po",))


def _subjects() -> Iterator[Kind]:
    for system in waiting():
        yield from system.subjects


def _topology_kinds() -> dict[str, tuple[PublishedKind, ...]]:
    kinds: dict[str, tuple[PublishedKind, ...]] = {}
    for system in waiting():
        for reader in system.readers:
            kinds[reader] = system.topology_kinds
    return kinds


SUBJECTS: Final = tuple(_subjects())
"""What can be explained besides pods: owners of pods, and what schedulers create for them."""
TOPOLOGY_KINDS: Final[Mapping[str, tuple[PublishedKind, ...]]] = _topology_kinds()
"""By the name of a system: the topology resource that it reads, any one of these."""


def _around() -> tuple[Kind, ...]:
    kinds: dict[Kind, None] = {}
    for system in waiting():
        kinds.update(dict.fromkeys(system.around))

    for topology_kinds in TOPOLOGY_KINDS.values():
        kinds.update(dict.fromkeys(topology_kinds))
    return tuple(kinds)


AROUND: Final = _around()
"""What schedulers read besides the workload."""


def kinds_called(word: str) -> tuple[Kind, ...]:
    """The kinds, Pod included, that `word` may stand for: several systems have PodGroups."""
    return tuple(kind for kind in (POD, *SUBJECTS) if kind.is_called(word))


_KEPT = {kind.key: kind for kind in (*SUBJECTS, *AROUND)}
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases of pods that wait for nothing."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A kind of which nothing is known."""

    kind: Kind
    is_forbidden: bool
    """True: these credentials must not list it. False: the files have none."""

    @property
    def why(self) -> str:
        """Why nothing is known, in a few words."""
        name = self.kind.name
        if self.is_forbidden:
            return f"{name} may not be listed with these credentials"
        return f"the files have no {self.kind.kind} (kubectl get {name} -A)"


@dataclass(slots=True)
class ObjectStore:
    """Objects by reference."""

    objects: dict[Ref, Object] = field(default_factory=dict)
    pods: dict[Ref, Object] = field(default_factory=dict)
    """Pods that have no node, and have not finished."""
    unread: dict[tuple[str, str], Unread] = field(default_factory=dict)
    """Kinds of which nothing is known, by group and kind: their objects may exist."""
    namespace: str | None = None
    """The namespace that was read; None for files, which may hold several."""

    def put(self, document: Object) -> None:
        """Keep an object."""
        ref = ref_of(document)
        self.objects[ref] = document

    def put_pod(self, document: Object) -> None:
        """Keep a pod that waits for a node."""
        root = Field(document)
        phase = (root / "status" / "phase").value
        node = (root / "spec" / "nodeName").value
        if node or phase in _FINISHED:
            return
        ref = ref_of(document)
        self.pods[ref] = document

    def of_kind(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind."""
        for ref, document in self.objects.items():
            ref_key = ref.group, ref.kind
            if ref_key == kind.key:
                yield ref, document

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """One object; None where it does not exist or cannot be read."""
        where = namespace if kind.is_namespaced else ""
        return self.objects.get(Ref(kind.group, kind.kind, where, name))

    def why_unknown(self, *kinds: Kind) -> str:
        """Why nothing is known about any of these kinds; empty when one of them is known."""
        first = ""
        for kind in kinds:
            unread = self.unread.get(kind.key)
            if unread is None:
                return ""

            first = first or unread.why
        return first


class FileCollector:
    """Fills a store with the objects that pass by while files are read.

    `pod` is the pod asked about, if any.
    """

    def __init__(self, pod: str | None) -> None:
        self._pod = pod
        self._store = ObjectStore()

    def wants(self, group: str, kind: str) -> bool:
        """Whether objects of the kind are kept at all: then `put` is called with each."""
        return (group, kind) == POD.key or (group, kind) in _KEPT

    def put(self, document: Object) -> None:
        """Keep an object."""
        ref = ref_of(document)
        if (ref.group, ref.kind) == POD.key:
            self._store.put_pod(document)
            if ref.name != self._pod:
                return
        self._store.objects[ref] = document

    def store(self) -> ObjectStore:
        """All objects that were kept; kinds of which the files hold none are unknown."""
        missing = dict(_KEPT)
        for ref in self._store.objects:
            missing.pop((ref.group, ref.kind), None)

        for key, kind in missing.items():
            self._store.unread[key] = Unread(kind, is_forbidden=False)
        return self._store


def ref_of(document: Object) -> Ref:
    """The identity of an object; malformed fields count as missing."""
    group, kind = kind_of(document)
    root = Field(document)
    metadata = root / "metadata"
    kept_kind = _KEPT.get((group, kind))
    is_namespaced = kept_kind is None or kept_kind.is_namespaced
    namespace = (metadata / "namespace").text()
    if not namespace:
        namespace = "default" if is_namespaced else ""

    return Ref(
        group=group,
        kind=kind,
        namespace=namespace,
        name=name_of(root),
    )


def owner_of(document: Object) -> Ref | None:
    """The object's controller, or else its only owner.

    Not every scheduler marks the owners of its PodGroups as controllers.
    """
    owner = _owner_reference(document)
    if owner is None:
        return None

    group, kind = kind_of(owner.value)
    name = (owner / "name").text()
    if not kind or not name:
        return None

    return Ref(
        group=group,
        kind=kind,
        namespace=ref_of(document).namespace,
        name=name,
    )


def _owner_reference(document: Object) -> Field | None:
    """The reference to its controller, or else the only one."""
    entries = Field(document) / "metadata" / "ownerReferences"
    references = list(entries.items())
    for reference in references:
        if reference.value and (reference / "controller").flag():
            return reference
    if len(references) == 1:
        return references[0]
    return None


def load_objects(
    client: ApiClient, namespace: str | None, pod: str | None, progress: Progress = silent
) -> ObjectStore:
    """All objects that may matter for a workload in this namespace.

    `namespace` is by default that of the kubeconfig's context. `pod` names the pod that is asked
    about, if any. Kinds that these credentials must not list go to `ObjectStore.unread`. Raises
    KubeError when the server does not answer.
    """
    store = ObjectStore(namespace=namespace or client.namespace or "default")
    loader = _Loader(client, store, progress)
    for kind in (*SUBJECTS, *AROUND):
        loader.load(kind, store.put)

    if pod is not None:
        loader.load(POD, store.put, f"metadata.name={pod}")
    loader.load(POD, store.put_pod, "spec.nodeName=")
    return store


_Put = Callable[[Object], None]


@dataclass(frozen=True, slots=True)
class _Loader:
    client: ApiClient
    store: ObjectStore
    progress: Progress

    def load(self, kind: Kind, put: _Put, fields: str = "") -> None:
        """All objects of a kind in the version that is served; none where it is not served."""
        self.progress(kind.name, 0)
        for version in kind.versions:
            try:
                self._load_version(kind, version, put, fields)
            except ApiError as error:
                if error.is_forbidden:
                    self.store.unread[kind.key] = Unread(kind, is_forbidden=True)
                    return
                if not error.is_not_found:
                    raise
            else:
                return

    def _load_version(self, kind: Kind, version: str, put: _Put, fields: str) -> None:
        items = everything(
            self.client,
            kind.path(version, self.store.namespace or ""),
            fields=fields,
            progress=partial(self.progress, kind.name),
        )
        for item in items:
            # Items of a list have neither.
            named = {"apiVersion": kind.api_version(version), "kind": kind.kind}
            put({**item, **named})
