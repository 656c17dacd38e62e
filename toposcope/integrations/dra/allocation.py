"""How often a pod's claims can be met on one node, as kube-scheduler's allocator would meet them.

Two numbers: so many pods find devices whatever the allocator chooses for each, and no more than so
many can. Rules: the allocator of k8s.io/dynamic-resource-allocation 0.36
(structured/internal/stable): a device that is in use is skipped, then class and request select,
then constraints are tried; an error in a selector ends the attempt.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, NamedTuple

from toposcope.integrations.dra.api import CLAIM, CLASS, TEMPLATE
from toposcope.integrations.dra.devices import Device, DeviceId, NodeDevices
from toposcope.integrations.dra.selectors import matches
from toposcope.integrations.framework.constraints import ClaimRef
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.node_affinity import Toleration
from toposcope.integrations.framework.pods import toleration_of

_STEPS: Final = 20_000
"""Devices that a search may try on one node."""
MANY: Final = 1 << 20
"""More pods than any node takes."""


class Copies(NamedTuple):
    """How many pods find their devices."""

    least: int
    most: int
    error: bool = False
    """Whether a selector may be in error for a device: kube-scheduler then gives up on all nodes.
    """


UNKNOWN: Final = Copies(0, MANY)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a claim, for `count` devices that all of `selectors` hold for."""

    name: str
    selectors: tuple[str, ...]
    count: int
    tolerations: tuple[Toleration, ...] = ()

    def takes(self, device: Device) -> bool | None:
        """Whether it could get the device.

        None: the selectors, which come before taints, cannot be evaluated.
        """
        for selector in self.selectors:
            found = matches(selector, device)
            if not found:
                return found
        return all(
            any(toleration.covers(taint) for toleration in self.tolerations)
            for taint in device.taints
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim asks for; `unclear` says why that cannot be judged."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[tuple[str, frozenset[str]], ...] = ()
    """Attributes whose values have to agree, and over which requests; empty: over all."""
    unclear: str = ""


@dataclass
class Claims:
    """The claims, templates and classes of a cluster.

    With those of the documents that are checked.
    """

    specs: dict[tuple[str, str, str], Field] = field(default_factory=dict)
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    extended: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By resource that pods may request of a class, as of a device plugin: the selectors of the
    class.
    """
    held: set[tuple[str, str, str]] = field(default_factory=set)
    """Claims that have their devices."""

    @classmethod
    def of(cls, documents: Iterable[Mapping[str, Any]]) -> "Claims":
        """Those among these objects."""
        found = cls()
        for root in map(Field, documents):
            kind = kind_of(root.value)
            key = kind[1], namespace_of(root), name_of(root)
            if kind == CLASS.key:
                found.classes[key[2]] = tuple(_selectors(root / "spec"))
                if resource := (root / "spec" / "extendedResourceName").text():
                    found.extended[resource] = found.classes[key[2]]
            elif kind in (CLAIM.key, TEMPLATE.key):
                found.specs[key] = root / "spec" / "spec" if kind == TEMPLATE.key else root / "spec"
                found.held |= {key} if root / "status" / "allocation" else set()
        return found

    def read(self, ref: ClaimRef, *, alone: bool) -> Claim:
        """What a pod's claim asks for; `alone`: one pod has it to itself."""
        key = ref.kind, ref.namespace, ref.name
        spec = self.specs.get(key)
        if spec is None:
            return Claim(unclear=f"{ref.handle} is not known")
        if key in self.held or (ref.kind == CLAIM.kind and not alone):
            return Claim(unclear=f"{ref.handle} is shared by pods, or has its devices already")
        return self.read_spec(spec)

    def read_spec(self, spec: Field) -> Claim:
        """What the spec of a claim asks for."""
        devices = spec / "devices"
        requests = []
        for request in (devices / "requests").items():
            exactly = request / "exactly" or request  # v1beta1 has no `exactly`
            name, class_name = (
                (request / "name").text() or "",
                (exactly / "deviceClassName").text() or "",
            )
            odd = [
                word
                for word in ("firstAvailable", "adminAccess", "capacity")
                if request / word or exactly / word
            ]
            if (exactly / "allocationMode").text() not in (None, "ExactCount"):
                odd.append("allocationMode")
            if odd:
                return Claim(unclear=f"request {name} has {odd[0]}, which is not judged")
            if class_name not in self.classes:
                return Claim(unclear=f"DeviceClass {class_name or '(none)'} is not known")
            selectors = (*self.classes[class_name], *_selectors(exactly))
            tolerations = tuple(map(toleration_of, (exactly / "tolerations").items()))
            requests.append(Request(name, selectors, (exactly / "count").number(1), tolerations))
        constraints = []
        for constraint in (devices / "constraints").items():
            attribute = (constraint / "matchAttribute").text()
            if attribute is None:
                return Claim(
                    unclear="it has a constraint other than matchAttribute, which is not judged"
                )
            over = frozenset(
                filter(None, (request.text() for request in (constraint / "requests").items()))
            )
            constraints.append((attribute, over))
        return Claim(tuple(requests), tuple(constraints))


def _selectors(spec: Field) -> Iterator[str]:
    for selector in (spec / "selectors").items():
        yield (selector / "cel" / "expression").text() or ""


def copies(claims: Sequence[Claim], there: NodeDevices, taken: frozenset[DeviceId]) -> Copies:
    """How many pods with these claims find devices on a node where `taken` are in use."""
    if there.vague or any(claim.unclear for claim in claims):
        return UNKNOWN
    needs = [
        _Need(
            request,
            frozenset(
                (n, number, attribute)
                for number, (attribute, over) in enumerate(claim.constraints)
                if not over or request.name in over
            ),
        )
        for n, claim in enumerate(claims)
        for request in claim.requests
        if request.count
    ]
    free = [device for device in there.devices if device.id not in taken]
    certain = min([need.see(free) for need in needs], default=True)
    if certain and (exact := _exact(needs)) is not None:
        return Copies(exact, exact)
    most = min(len(need.devices) // need.request.count for need in needs)
    found = _found(needs) if most else False
    return Copies(int(certain and found is True), 0 if found is False else most, error=not certain)


_Constraint = tuple[int, int, str]
"""Claim, place in it, and attribute."""


class _Need:
    """A request with its constraints, each told from those of other claims.

    And the free devices that it could get.
    """

    def __init__(self, request: Request, constraints: frozenset[_Constraint]) -> None:
        self.request = request
        self.constraints = constraints
        self.devices: list[Device] = []

    def see(self, free: Sequence[Device]) -> bool:
        """Find its devices among the free ones; whether that is certain."""
        answers = [(device, self.request.takes(device)) for device in free]
        attributes = [attribute for *_, attribute in self.constraints]
        self.devices = [
            device
            for device, answer in answers
            if answer is not False
            and all(device.attribute(attribute) is not None for attribute in attributes)
        ]
        return all(answer is not None for _, answer in answers)

    @property
    def kind(self) -> Any:
        """Equal for requests that could get the same devices."""
        return frozenset(device.id for device in self.devices)

    def values(self, device: Device) -> tuple[Any, ...]:
        """What the constraints compare, in an order of their own."""
        return tuple(
            _typed(device.attribute(attribute)) for *_, attribute in sorted(self.constraints)
        )


def _typed(value: Any) -> Any:
    return type(value).__name__, value


def _exact(needs: Sequence[_Need]) -> int | None:
    """The number where every choice leads to the same; None where choices matter.

    Requests that constraints hold together are a component. Within it all constraints cover all of
    it, so it takes its devices from one group of equal values; and no two components, or two
    requests in it, get some devices in common unless they could get all of the same. Then each pod
    takes one slot of a group, whichever that is.
    """
    components: dict[Any, list[_Need]] = {}
    for number, need in enumerate(needs):
        components.setdefault(need.constraints or number, []).append(need)
    owners = [constraint for key in components if isinstance(key, frozenset) for constraint in key]
    if len(owners) != len(set(owners)):
        return None
    kinds = {need.kind for need in needs}
    if any(not a.isdisjoint(b) for a, b in combinations(kinds, 2)):
        return None
    wanted: Counter[Any] = Counter()
    loose: Counter[Any] = Counter()
    first: dict[Any, list[_Need]] = {}
    for key, members in components.items():
        if not isinstance(key, frozenset):
            loose[members[0].kind] += members[0].request.count
            continue
        alike = (
            tuple(attribute for *_, attribute in sorted(key)),
            frozenset(_needed(members).items()),
        )
        wanted[alike] += 1
        first[alike] = members
    used = Counter(kind for _, kinds_of in wanted for kind, _ in kinds_of) + Counter(loose.keys())
    if max(used.values(), default=0) > 1:
        return None
    rooms = [len(kind) // count for kind, count in loose.items()]
    rooms += [_slots(members) // wanted[alike] for alike, members in first.items()]
    return min(rooms, default=MANY)


def _needed(members: Sequence[_Need]) -> Counter[Any]:
    needed: Counter[Any] = Counter()
    for member in members:
        needed[member.kind] += member.request.count
    return needed


def _slots(members: Sequence[_Need]) -> int:
    """How often a component fits.

    In each group of equal values as often as its scarcest devices are enough.
    """
    needed = _needed(members)
    groups: dict[tuple[Any, ...], Counter[Any]] = {}
    for member in {member.kind: member for member in members}.values():
        for device in member.devices:
            groups.setdefault(member.values(device), Counter())[member.kind] += 1
    return sum(
        min(there[kind] // count for kind, count in needed.items()) for there in groups.values()
    )


def _found(needs: Sequence[_Need]) -> bool | None:
    """Whether one pod finds its devices; None: not known after so many steps."""
    slots = [
        need
        for need in sorted(needs, key=lambda need: len(need.devices))
        for _ in range(need.request.count)
    ]
    left = [_STEPS]

    def place(
        at: int, used: frozenset[DeviceId], agreed: Mapping[_Constraint, Any], after: int
    ) -> bool:
        if at == len(slots):
            return True
        need = slots[at]
        begin = after if at and slots[at - 1] is need else 0
        for number, device in enumerate(need.devices[begin:], begin):
            left[0] -= 1
            if left[0] < 0:
                raise TimeoutError
            said = {
                constraint: _typed(device.attribute(constraint[2]))
                for constraint in need.constraints
            }
            if device.id in used or any(
                agreed.get(constraint, value) != value for constraint, value in said.items()
            ):
                continue
            if place(at + 1, used | {device.id}, {**agreed, **said}, number + 1):
                return True
        return False

    try:
        return place(0, frozenset(), {}, 0)
    except TimeoutError:
        return None
