"""Who belongs to whom: from the object that is asked about up to what somebody wrote, and down to all of its pods."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.explain.kinds import POD, POD_GROUP, Kind
from toposcope.explain.object_store import ObjectStore, Ref, names, owner_of
from toposcope.integrations.kai.pod_group import GROUP_OF
from toposcope.snapshot.model import PodView, Snapshot

_DEEPEST: Final = 16
"""Owners of owners; owners that own each other must end somewhere."""


class ObjectNotFoundError(ToposcopeError):
    """What is to be explained is not there; the message says what is."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """An object with everything that belongs to it."""

    subject: Ref
    chain: tuple[Ref, ...]
    """The subject, its owner, the owner's owner and so on, as far as they are seen."""
    members: tuple[Ref, ...]
    """Every object that the topmost owner owns in the end, itself included; without pods."""
    pods: tuple[PodView, ...]
    """Those that have not finished."""
    beyond: Ref | None = None
    """An owner of the topmost one that is named and not seen."""

    @property
    def top(self) -> Ref:
        """The topmost owner."""
        return self.chain[-1]


def subject_of(store: ObjectStore, snapshot: Snapshot, kind: Kind, name: str, namespace: str | None) -> Ref:
    """The object that is meant. Raises NoSuchObject."""
    wanted = namespace or store.namespace
    there = {ref for ref, _ in store.of_kind(kind)}
    if kind is POD:
        there |= {_pod_ref(pod) for pod in snapshot.pods or ()}
    found = sorted({ref.namespace for ref in there if ref.name == name and wanted in (None, ref.namespace)})
    if len(found) == 1:
        return Ref(kind.group, kind.kind, found[0], name)
    called = f"{kind.kind.lower()}/{name}"
    if found:
        raise ObjectNotFoundError(f"there are several {called}; choose a namespace with -n: {', '.join(found)}")
    hidden = store.hidden(kind)
    if hidden:
        raise ObjectNotFoundError(f"{called} cannot be looked at: {hidden}")
    where = f" in namespace {wanted}" if wanted else ""
    elsewhere = sorted({ref.namespace for ref in there if ref.name == name})
    close = get_close_matches(name, names(ref for ref in there if wanted in (None, ref.namespace)), 1)
    offer = f"; it is in namespace {', '.join(elsewhere)}" if elsewhere else ""
    offer = offer or (f"; did you mean {close[0]!r}?" if close else "")
    raise ObjectNotFoundError(f"there is no {called}{where}{offer}")


def ownership_of(store: ObjectStore, snapshot: Snapshot, subject: Ref) -> Ownership:
    """Everything that belongs to the subject, or together with it to the same owner."""
    tree = _Tree(store, snapshot)
    chain = tree.chain(subject)
    members = tuple(ref for ref in store.objects if _is_member(ref) and tree.chain(ref)[-1] == chain[-1])
    groups = {ref.name for ref in members if (ref.group, ref.kind) == POD_GROUP.key}
    namespace = subject.namespace
    pods = tuple(
        pod
        for pod in snapshot.pods or ()
        if pod.namespace == namespace
        and (tree.chain(_pod_ref(pod))[-1] == chain[-1] or pod.annotations.get(GROUP_OF) in groups)
    )
    beyond = tree.owner(chain[-1])
    return Ownership(subject, chain, members, pods, beyond)


def _is_member(ref: Ref) -> bool:
    return (ref.group, ref.kind) != POD.key


def _pod_ref(pod: PodView) -> Ref:
    return Ref("", "Pod", pod.namespace, pod.name)


class _Tree:
    """Owners by what they own."""

    def __init__(self, store: ObjectStore, snapshot: Snapshot) -> None:
        self._owners: dict[Ref, Ref | None] = {}
        for pod in snapshot.pods or ():
            owner = pod.owner
            group = owner.api_version.rpartition("/")[0] if owner else ""
            self._owners[_pod_ref(pod)] = Ref(group, owner.kind, pod.namespace, owner.name) if owner else None
        for ref, document in store.objects.items():
            self._owners[ref] = owner_of(document)

    def owner(self, ref: Ref) -> Ref | None:
        return self._owners.get(ref)

    def chain(self, ref: Ref) -> tuple[Ref, ...]:
        found = [ref]
        while len(found) < _DEEPEST:
            owner = self._owners.get(found[-1])
            if owner is None or owner not in self._owners or owner in found:
                break
            found.append(owner)
        return tuple(found)
