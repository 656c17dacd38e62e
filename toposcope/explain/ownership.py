"""Who owns what: from the object asked about up to its topmost owner, and down to its pods."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from operator import attrgetter
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.explain.object_store import POD, ObjectStore, owner_of
from toposcope.integrations.framework.features import Ref
from toposcope.integrations.registry import waiting
from toposcope.kube.discovery import Kind
from toposcope.snapshot.model import PodView, Snapshot

_MAX_DEPTH: Final = 16
"""Owners of owners; objects that own each other must end somewhere."""


class ObjectNotFoundError(ToposcopeError):
    """The object to explain does not exist or is ambiguous; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """An object with everything that belongs to it."""

    subject: Ref
    chain: tuple[Ref, ...]
    """The subject, its owner, the owner's owner and so on, as far as they can be read."""
    members: tuple[Ref, ...]
    """The topmost owner and every object that it owns, directly or not; without pods."""
    pods: tuple[PodView, ...]
    """Its pods that have not finished."""
    unread_owner: Ref | None = None
    """An owner that the topmost object names and that cannot be read."""

    @property
    def top(self) -> Ref:
        """The topmost owner."""
        return self.chain[-1]


def subject_of(
    store: ObjectStore, snapshot: Snapshot, kind: Kind, name: str, namespace: str | None
) -> Ref:
    """The object of this kind and name. Raises ObjectNotFoundError."""
    wanted = namespace or store.namespace
    existing = _existing(store, snapshot, kind)
    namespaces = []
    matching = []
    for ref in existing:
        if ref.name == name:
            namespaces.append(ref.namespace)
            if wanted in (None, ref.namespace):
                matching.append(ref.namespace)

    if len(matching) == 1:
        (found_in,) = matching
        return Ref(kind.group, kind.kind, found_in, name)

    called = f"{kind.kind.lower()}/{name}"
    if matching:
        choice = ", ".join(sorted(matching))
        raise ObjectNotFoundError(
            f"{called} exists in several namespaces; choose one with -n: {choice}"
        )
    if why := store.why_unknown(kind):
        raise ObjectNotFoundError(f"cannot read {called}: {why}")

    where = f" in namespace {wanted}" if wanted else ""
    hint = _did_you_mean(name, existing, wanted)
    if namespaces:
        hint = f"; it is in namespace {', '.join(sorted(namespaces))}"
    raise ObjectNotFoundError(f"there is no {called}{where}{hint}")


def _existing(store: ObjectStore, snapshot: Snapshot, kind: Kind) -> set[Ref]:
    """The objects of a kind in all namespaces."""
    existing = set()
    for ref, _ in store.of_kind(kind):
        existing.add(ref)

    if kind is POD:
        pods = snapshot.pods or ()
        existing.update(map(_pod_ref, pods))
    return existing


def _did_you_mean(name: str, existing: Collection[Ref], namespace: str | None) -> str:
    names = set()
    for ref in existing:
        if namespace in (None, ref.namespace):
            names.add(ref.name)

    close = get_close_matches(name, sorted(names), 1)
    if not close:
        return ""
    return f"; did you mean {close[0]!r}?"


def ownership_of(store: ObjectStore, snapshot: Snapshot, subject: Ref) -> Ownership:
    """Everything that belongs to the subject, or together with it to the same owner."""
    owners = _Owners(store, snapshot)
    chain = owners.chain(subject)
    top = chain[-1]

    members = []
    for ref in store.objects:
        if _is_kind(ref, POD):
            continue
        if owners.top(ref) == top:
            members.append(ref)

    pods = tuple(_pods_of(snapshot, owners, chain, members))
    members += _named_groups(store, pods, members)
    return Ownership(
        subject=subject,
        chain=chain,
        members=tuple(members),
        pods=pods,
        unread_owner=owners.owner(top),
    )


def _pods_of(
    snapshot: Snapshot, owners: "_Owners", chain: tuple[Ref, ...], members: Collection[Ref]
) -> Iterator[PodView]:
    """The pods that the topmost owner owns, and those that name a group among its members."""
    groups = frozenset(members)
    namespace = chain[0].namespace
    top = chain[-1]
    for pod in snapshot.pods or ():
        if pod.namespace != namespace:
            continue
        pod_top = owners.top(_pod_ref(pod))
        if pod_top == top or not groups.isdisjoint(_groups_of(pod)):
            yield pod


def _groups_of(pod: PodView) -> Iterator[Ref]:
    """The groups that a pod names."""
    for system in waiting():
        group = system.group_of(pod)
        if group:
            yield group


def _named_groups(
    store: ObjectStore, pods: Collection[PodView], members: Collection[Ref]
) -> list[Ref]:
    """Groups that the pods name and that their owner does not own.

    People wrote them by hand, or each of several pods owns them.
    """
    groups = set()
    for pod in pods:
        for group in _groups_of(pod):
            if group in store.objects:
                groups.add(group)
    return sorted(groups.difference(members), key=attrgetter("name"))


def _is_kind(ref: Ref, kind: Kind) -> bool:
    return (ref.group, ref.kind) == kind.key


def _pod_ref(pod: PodView) -> Ref:
    return Ref("", "Pod", pod.namespace, pod.name)


class _Owners:
    """The owner of every object and pod that is known."""

    def __init__(self, store: ObjectStore, snapshot: Snapshot) -> None:
        owners: dict[Ref, Ref | None] = {}
        for pod in snapshot.pods or ():
            pod_ref = _pod_ref(pod)
            owners[pod_ref] = _pod_owner(pod)

        for ref, document in store.objects.items():
            owners[ref] = owner_of(document)

        for pod in snapshot.pods or ():
            pod_ref = _pod_ref(pod)
            if owners[pod_ref] is None:
                owners[pod_ref] = _group_around(pod, owners)
        self._owners = owners

    def owner(self, ref: Ref) -> Ref | None:
        return self._owners.get(ref)

    def chain(self, ref: Ref) -> tuple[Ref, ...]:
        chain = [ref]
        while len(chain) < _MAX_DEPTH:
            owner = self._owners.get(chain[-1])
            if owner is None or owner not in self._owners or owner in chain:
                break

            chain.append(owner)
        return tuple(chain)

    def top(self, ref: Ref) -> Ref:
        return self.chain(ref)[-1]


def _group_around(pod: PodView, owners: Mapping[Ref, Ref | None]) -> Ref | None:
    """The group that a pod without an owner names, if it is known and not the pod's own."""
    for group in _groups_of(pod):
        if group in owners and owners[group] != _pod_ref(pod):
            return group
    return None


def _pod_owner(pod: PodView) -> Ref | None:
    owner = pod.owner
    if owner is None:
        return None

    group, _, _ = owner.api_version.rpartition("/")
    return Ref(
        group=group,
        kind=owner.kind,
        namespace=pod.namespace,
        name=owner.name,
    )
