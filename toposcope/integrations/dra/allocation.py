"""How many pods' claims can be met on one node by the scheduler's allocator.

Two bounds: pods that find devices whatever the allocator chooses, and pods that can at most. Rules:
the allocator of k8s.io/dynamic-resource-allocation 0.36 (structured/internal/stable): a device that
is in use is skipped, then class and request select, then constraints are tried; an error in a
selector ends the attempt.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final, NamedTuple

from toposcope.errors import ToposcopeError
from toposcope.integrations.dra.api import CLAIM, CLASS, TEMPLATE, text_at
from toposcope.integrations.dra.compute_domains import CHANNEL_CLASS, COMPUTE_DOMAIN
from toposcope.integrations.dra.devices import DeviceId, DraDevice, NodeDevices
from toposcope.integrations.dra.selectors import matches
from toposcope.integrations.framework.constraints import ClaimRef
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.node_affinity import Taint, Toleration
from toposcope.integrations.framework.node_terms import toleration_of

_MAX_STEPS: Final = 20_000
"""The number of devices that a search may try on one node."""
_JUDGED: Final = frozenset(
    {"allocationMode", "count", "deviceClassName", "exactly", "name", "selectors", "tolerations"}
)
"""Fields of a request that are supported here."""
_JUDGED_OF_CLAIMS: Final = frozenset({"config", "constraints", "requests"})
"""Supported fields of a claim's devices; only the driver reads `config`."""
MAX_PODS: Final = 1 << 20
"""More pods than fit on any node."""


class Copies(NamedTuple):
    """How many pods find devices."""

    least: int
    most: int
    has_error: bool = False
    """Whether a selector may fail for a device: the scheduler then gives up on all nodes."""


UNKNOWN: Final = Copies(0, MAX_PODS)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim, for `count` devices that match all of `selectors`."""

    name: str
    selectors: tuple[str, ...]
    count: int
    tolerations: tuple[Toleration, ...] = ()

    def takes(self, device: DraDevice) -> bool | None:
        """Whether it could get the device; None if a selector (evaluated before taints) is open."""
        for selector in self.selectors:
            matching = matches(selector, device)
            if not matching:
                return matching
        for taint in device.taints:
            if not self._tolerates(taint):
                return False
        return True

    def _tolerates(self, taint: Taint) -> bool:
        for toleration in self.tolerations:
            if toleration.covers(taint):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Claim:
    """The requests of a claim; `unclear` says why they cannot be evaluated."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[tuple[str, frozenset[str]], ...] = ()
    """Attributes that must match, and for which requests; empty for all."""
    unclear: str = ""


class _UnclearError(ToposcopeError):
    """A claim requests something that is not supported here."""


@dataclass
class Claims:
    """The claims, templates and classes of a cluster and of the checked documents."""

    specs: dict[tuple[str, str, str], Field] = field(default_factory=dict)
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    extended: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The selectors of a class, by the resource that pods may request instead of claiming."""
    held: set[tuple[str, str, str]] = field(default_factory=set)
    """Claims that are allocated."""
    channels: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Templates that a ComputeDomain's driver creates, with the class of their device."""

    @classmethod
    def of(cls, documents: Iterable[Mapping[str, Any]]) -> "Claims":
        """The claims, templates and classes among these objects."""
        claims = cls()
        for document in documents:
            root = Field(document)
            kind = kind_of(document)
            if kind == CLASS.key:
                claims._add_class(root)
            elif kind == CLAIM.key:
                claims._add(kind[1], root, root / "spec")
            elif kind == TEMPLATE.key:
                claims._add(kind[1], root, root / "spec" / "spec")
            elif kind == COMPUTE_DOMAIN.key:
                claims._add_channel(root)
        return claims

    def _add_class(self, root: Field) -> None:
        name = name_of(root)
        selectors = tuple(_selectors(root / "spec"))
        self.classes[name] = selectors
        resource = (root / "spec" / "extendedResourceName").text()
        if resource:
            self.extended[resource] = selectors

    def _add_channel(self, root: Field) -> None:
        channel = root / "spec" / "channel"
        name = text_at(channel / "resourceClaimTemplate", "name")
        mode = text_at(channel, "allocationMode")
        if name and mode in ("", "Single"):
            self.channels[TEMPLATE.kind, namespace_of(root), name] = CHANNEL_CLASS

    def is_channel(self, ref: ClaimRef) -> bool:
        """Whether it claims a channel by which pods share memory."""
        key = ref.kind, ref.namespace, ref.name
        if ref.device_class == CHANNEL_CLASS or key in self.channels:
            return True
        spec = self.specs.get(key)
        if spec is None:
            return False
        for request in (spec / "devices" / "requests").items():
            exactly = request / "exactly" or request
            if text_at(exactly, "deviceClassName") == CHANNEL_CLASS:
                return True
        return False

    def _add(self, kind: str, root: Field, spec: Field) -> None:
        key = kind, namespace_of(root), name_of(root)
        self.specs[key] = spec
        if root / "status" / "allocation":
            self.held.add(key)

    def read(self, ref: ClaimRef, *, is_alone: bool) -> Claim:
        """The requests of a pod's claim; `is_alone` if one pod has it to itself."""
        if ref.device_class:
            return self._of_class(ref)
        key = ref.kind, ref.namespace, ref.name
        spec = self.specs.get(key)
        if spec is None and key in self.channels:
            return self._of_class(replace(ref, device_class=self.channels[key], devices=1))
        if spec is None:
            return Claim(unclear=f"{ref.handle} is unknown")
        if key in self.held or (ref.kind == CLAIM.kind and not is_alone):
            return Claim(unclear=f"{ref.handle} is shared by pods or already allocated")
        return self.read_spec(spec)

    def _of_class(self, ref: ClaimRef) -> Claim:
        """The requests of a claim that does not exist yet."""
        if ref.device_class not in self.classes:
            return Claim(unclear=f"DeviceClass {ref.device_class} is unknown")
        request = DeviceRequest(ref.name, self.classes[ref.device_class], ref.devices)
        return Claim((request,))

    def read_spec(self, spec: Field) -> Claim:
        """The requests in the spec of a claim."""
        devices = spec / "devices"
        requests = []
        constraints = []
        try:
            _check_judged(devices)
            for request in (devices / "requests").items():
                requests.append(self._read_request(request))
            for constraint in (devices / "constraints").items():
                constraints.append(_read_constraint(constraint))
        except _UnclearError as error:
            return Claim(unclear=str(error))

        return Claim(tuple(requests), tuple(constraints))

    def _read_request(self, request: Field) -> DeviceRequest:
        """One request. Raises _UnclearError."""
        exactly = request / "exactly" or request  # v1beta1 has no `exactly`
        name = text_at(request, "name")
        unusual = _unusual_field(request, exactly)
        if unusual:
            raise _UnclearError(f"request {name} has {unusual}, which is not supported here")

        class_name = text_at(exactly, "deviceClassName")
        if class_name not in self.classes:
            shown = class_name or "(none)"
            raise _UnclearError(f"DeviceClass {shown} is unknown")

        tolerations = []
        for entry in (exactly / "tolerations").items():
            tolerations.append(toleration_of(entry))
        return DeviceRequest(
            name=name,
            selectors=(*self.classes[class_name], *_selectors(exactly)),
            count=(exactly / "count").number(1),
            tolerations=tuple(tolerations),
        )


def _check_judged(devices: Field) -> None:
    """Raises _UnclearError if a claim has unsupported fields."""
    for name, field_ in devices.properties():
        if field_ and name not in _JUDGED_OF_CLAIMS:
            raise _UnclearError(f"the claim has {name}, which is not supported here")


def _unusual_field(request: Field, exactly: Field) -> str:
    """An unsupported field of the request; empty if it has none."""
    for name, field_ in (*request.properties(), *exactly.properties()):
        if field_ and name not in _JUDGED:
            return name
    mode = text_at(exactly, "allocationMode")
    if mode not in ("", "ExactCount"):
        return "allocationMode"
    return ""


def _read_constraint(constraint: Field) -> tuple[str, frozenset[str]]:
    """The attribute of a constraint and its requests. Raises _UnclearError."""
    attribute = (constraint / "matchAttribute").text()
    if attribute is None:
        raise _UnclearError(
            "it has a constraint other than matchAttribute, which is not supported here"
        )
    over = set()
    for request in (constraint / "requests").items():
        name = request.text()
        if name:
            over.add(name)
    return attribute, frozenset(over)


def _selectors(spec: Field) -> Iterator[str]:
    for selector in (spec / "selectors").items():
        yield text_at(selector / "cel", "expression")


def copies(
    claims: Sequence[Claim], node_devices: NodeDevices, in_use: frozenset[DeviceId]
) -> Copies:
    """How many pods with these claims find devices on a node where `in_use` are in use."""
    if node_devices.is_uncertain or any(claim.unclear for claim in claims):
        return UNKNOWN
    needs = _needs(claims)
    certain = _see_free(needs, node_devices, in_use)
    if certain:
        exact = _exact(needs)
        if exact is not None:
            return Copies(exact, exact)
    return _bounds(needs, is_certain=certain)


def _bounds(needs: Sequence["_Need"], *, is_certain: bool) -> Copies:
    """At most as many pods as the scarcest request allows; at least one if a search finds it."""
    most = min(len(need.devices) // need.request.count for need in needs)
    has_place: bool | None = False
    if most:
        has_place = _Search(needs).run()
    if has_place is False:
        return Copies(0, 0, has_error=not is_certain)
    least = 0
    if is_certain and has_place:
        least = 1
    return Copies(least, most, has_error=not is_certain)


def _see_free(
    needs: Sequence["_Need"], node_devices: NodeDevices, in_use: frozenset[DeviceId]
) -> bool:
    """Let each request find its devices among the free ones. Returns whether that is certain."""
    free = [device for device in node_devices.devices if device.id not in in_use]
    certain = True
    for need in needs:
        if not need.see(free):
            certain = False
    return certain


class _Constraint(NamedTuple):
    """A constraint, identified with its claim."""

    claim: int
    place: int
    attribute: str


class _Need:
    """A request with its constraints, and the free devices that it could get."""

    def __init__(self, request: DeviceRequest, constraints: frozenset[_Constraint]) -> None:
        self.request = request
        self.constraints = constraints
        self.devices: list[DraDevice] = []
        self._attributes = _attributes(constraints)

    def see(self, free: Sequence[DraDevice]) -> bool:
        """Find its devices among the free ones. Returns whether that is certain."""
        certain = True
        self.devices = []
        for device in free:
            answer = self.request.takes(device)
            if answer is False:
                continue
            if answer is None:
                certain = False
            if self._has_attributes(device):
                self.devices.append(device)

        return certain

    def _has_attributes(self, device: DraDevice) -> bool:
        for attribute in self._attributes:
            if device.attribute(attribute) is None:
                return False
        return True

    @property
    def kind(self) -> frozenset[DeviceId]:
        """Equal for requests that could get the same devices."""
        return frozenset([device.id for device in self.devices])

    def values(self, device: DraDevice) -> tuple[Any, ...]:
        """What the constraints compare, in an order of their own."""
        values = []
        for attribute in self._attributes:
            value = device.attribute(attribute)
            values.append(_typed(value))
        return tuple(values)

    def by_constraint(self, device: DraDevice) -> dict[_Constraint, Any]:
        """What each constraint compares."""
        values = {}
        for constraint in self.constraints:
            value = device.attribute(constraint.attribute)
            values[constraint] = _typed(value)
        return values


def _attributes(constraints: Iterable[_Constraint]) -> tuple[str, ...]:
    return tuple([constraint.attribute for constraint in sorted(constraints)])


def _typed(value: Any) -> Any:
    return type(value).__name__, value


def _needs(claims: Sequence[Claim]) -> list[_Need]:
    needs = []
    for number, claim in enumerate(claims):
        for request in claim.requests:
            if request.count:
                constraints = _constraints(number, claim, request.name)
                need = _Need(request, constraints)
                needs.append(need)
    return needs


def _constraints(number: int, claim: Claim, request: str) -> frozenset[_Constraint]:
    """The constraints of a claim that include this request."""
    constraints = set()
    for place, (attribute, over) in enumerate(claim.constraints):
        if not over or request in over:
            constraint = _Constraint(number, place, attribute)
            constraints.add(constraint)
    return frozenset(constraints)


@dataclass(frozen=True)
class _Shape:
    """The shape of a component. Components of the same shape fit the same groups of devices."""

    attributes: tuple[str, ...]
    needed: frozenset[tuple[frozenset[DeviceId], int]]
    """Devices that could be allocated, and how many of them."""


def _exact(needs: Sequence[_Need]) -> int | None:
    """The exact number if every choice leads to the same; None if choices matter.

    Requests that constraints hold together are a component. The number is exact if all constraints
    of a component cover all of it, so that its devices come from one group of equal values; and if
    two components, or two requests in it, can use either the same devices or no common ones. Then
    each pod uses one slot of any group.
    """
    loose: Counter[frozenset[DeviceId]] = Counter()
    components: dict[frozenset[_Constraint], list[_Need]] = {}
    for need in needs:
        if need.constraints:
            members = components.setdefault(need.constraints, [])
            members.append(need)
        else:
            loose[need.kind] += need.request.count

    if _share_constraints(components) or _partly_overlap(needs):
        return None

    by_shape: dict[_Shape, list[list[_Need]]] = {}
    for constraints, members in components.items():
        needed = _needed(members)
        shape = _Shape(_attributes(constraints), frozenset(needed.items()))
        of_shape = by_shape.setdefault(shape, [])
        of_shape.append(members)
    if _compete(loose, by_shape):
        return None

    # From here on no choice of one pod takes a device that another kind of request could use.
    rooms = []
    for kind, count in loose.items():
        rooms.append(len(kind) // count)
    for of_shape in by_shape.values():
        slots = _slots(of_shape[0])
        rooms.append(slots // len(of_shape))
    return min(rooms, default=MAX_PODS)


def _share_constraints(components: Iterable[frozenset[_Constraint]]) -> bool:
    """Whether a constraint includes requests of two components."""
    earlier_constraints: set[_Constraint] = set()
    for constraints in components:
        if not earlier_constraints.isdisjoint(constraints):
            return True
        earlier_constraints |= constraints
    return False


def _partly_overlap(needs: Sequence[_Need]) -> bool:
    """Whether requests could get some common devices, but not all the same."""
    kinds = {need.kind for need in needs}
    for kind, other_kind in combinations(kinds, 2):
        if not kind.isdisjoint(other_kind):
            return True
    return False


def _compete(loose: Iterable[frozenset[DeviceId]], shapes: Iterable[_Shape]) -> bool:
    """Whether requests of two shapes, or with and without constraints, compete for devices."""
    wanted = set(loose)
    for shape in shapes:
        for kind, _ in shape.needed:
            if kind in wanted:
                return True
            wanted.add(kind)
    return False


def _needed(members: Sequence[_Need]) -> Counter[frozenset[DeviceId]]:
    needed: Counter[frozenset[DeviceId]] = Counter()
    for member in members:
        needed[member.kind] += member.request.count
    return needed


def _slots(members: Sequence[_Need]) -> int:
    """How often a component fits: in each group of equal values, as its scarcest device allows."""
    by_kind = {member.kind: member for member in members}
    groups: dict[tuple[Any, ...], Counter[frozenset[DeviceId]]] = {}
    for kind, member in by_kind.items():
        for device in member.devices:
            values = member.values(device)
            group = groups.setdefault(values, Counter())
            group[kind] += 1

    needed = _needed(members)
    slots = 0
    for group in groups.values():
        slots += min(group[kind] // count for kind, count in needed.items())

    return slots


class _Search:
    """Looks for the devices of one pod, for a limited number of steps."""

    def __init__(self, needs: Sequence[_Need]) -> None:
        self._slots: list[_Need] = []
        scarcest_first = sorted(needs, key=lambda need: len(need.devices))
        for need in scarcest_first:
            self._slots += [need] * need.request.count
        self._steps_left = _MAX_STEPS

    def run(self) -> bool | None:
        """Whether the pod finds its devices; None if the steps run out."""
        try:
            return self._place(0, frozenset(), {}, 0)
        except TimeoutError:
            return None

    def _place(
        self,
        at: int,
        used: frozenset[DeviceId],
        agreed: Mapping[_Constraint, Any],
        after: int,
    ) -> bool:
        """Whether the slots from `at` on get devices. Equal slots get theirs in order."""
        if at == len(self._slots):
            return True

        need = self._slots[at]
        begin = after if at and self._slots[at - 1] is need else 0
        for number, device in enumerate(need.devices[begin:], begin):
            self._steps_left -= 1
            if self._steps_left < 0:
                raise TimeoutError

            if device.id in used:
                continue
            values = need.by_constraint(device)
            if not _agree(agreed, values):
                continue
            if self._place(at + 1, used | {device.id}, {**agreed, **values}, number + 1):
                return True

        return False


def _agree(agreed: Mapping[_Constraint, Any], values: Mapping[_Constraint, Any]) -> bool:
    for constraint, value in values.items():
        if agreed.get(constraint, value) != value:
            return False
    return True
