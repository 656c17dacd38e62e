"""What Kueue is asked for one pod set, out of the annotations of its pod template or out of a Workload.

Rules and messages: Kueue 0.19, the webhooks of its job integrations (`ValidateTASPodSetRequest`).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.pods import PodSet

_PREFIX: Final = "kueue.x-k8s.io/"
REQUIRED: Final = _PREFIX + "podset-required-topology"
PREFERRED: Final = _PREFIX + "podset-preferred-topology"
UNCONSTRAINED: Final = _PREFIX + "podset-unconstrained-topology"
SLICE_REQUIRED: Final = _PREFIX + "podset-slice-required-topology"
SLICE_SIZE: Final = _PREFIX + "podset-slice-size"
SLICE_LAYERS: Final = _PREFIX + "podset-slice-required-topology-constraints"
GROUP_NAME: Final = _PREFIX + "podset-group-name"
ALL: Final = (REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_REQUIRED, SLICE_SIZE, SLICE_LAYERS, GROUP_NAME)

_FIELDS: Final = {
    REQUIRED: "required",
    PREFERRED: "preferred",
    UNCONSTRAINED: "unconstrained",
    SLICE_REQUIRED: "podSetSliceRequiredTopology",
    SLICE_SIZE: "podSetSliceSize",
    SLICE_LAYERS: "podsetSliceRequiredTopologyConstraints",
    GROUP_NAME: "podSetGroupName",
}
_MOST_LAYERS: Final = 3
_BOOLEANS: Final = frozenset(["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
"""What Go's ParseBool takes."""
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_DNS: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST: Final = 63
_LONGEST_PREFIX: Final = 253


@dataclass(frozen=True, slots=True)
class Named:
    """A level that the request names, and where."""

    key: str
    part: Field


@dataclass(frozen=True, slots=True)
class Slices:
    """Pods of the set in slices of `size`, each kept together at a level."""

    level: Named
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """One pod set's request."""

    pod_set: PodSet
    where: Field
    """The annotations, or the topologyRequest."""
    required: Named | None = None
    preferred: Named | None = None
    slices: tuple[Slices, ...] = field(default=())
    """Broadest first; the inner ones divide the outer ones."""
    group: str | None = None

    @property
    def level(self) -> Named | None:
        """The level for the whole set, required or preferred."""
        return self.required or self.preferred


def annotated(pod_set: PodSet) -> Request:
    """The request that stands in the annotations of a pod template."""
    return _Reader(pod_set, pod_set.annotations, {key: key for key in ALL}).request()


def of_workload(pod_set: PodSet, topology_request: Field) -> Request:
    """The request of a pod set in a Kueue Workload."""
    return _Reader(pod_set, topology_request, _FIELDS).request()


class _Reader:
    def __init__(self, pod_set: PodSet, where: Field, names: dict[str, str]) -> None:
        self._set = pod_set
        self._where = where
        self._names = names
        self._texts = names[REQUIRED] == REQUIRED
        """Annotations are texts, fields have types."""

    def request(self) -> Request:
        """All of it; what is wrong is noted and left out."""
        self._check_one()
        self._check_unconstrained()
        group = self._group()
        return Request(
            self._set,
            self._where,
            self._named(self._at(REQUIRED)),
            None if self._at(REQUIRED) else self._named(self._at(PREFERRED)),
            self._layers() if self._at(SLICE_LAYERS) else self._two_levels(),
            group,
        )

    def _at(self, key: str) -> Field:
        return self._where / self._names[key]

    def _check_one(self) -> None:
        kinds = (REQUIRED, PREFERRED, UNCONSTRAINED)
        if sum(bool(self._at(key)) for key in kinds) > 1:
            listed = ", ".join(f'"{self._names[key]}"' for key in kinds)
            self._where.error(
                "kueue/one-annotation",
                f"must not contain more than one topology annotation: [{listed}]",
                "keep the one that you mean",
            )

    def _check_unconstrained(self) -> None:
        part = self._at(UNCONSTRAINED)
        if not self._texts:
            part.flag()
        elif not isinstance(part.value, str):
            part.text()
        elif part.value not in _BOOLEANS:
            part.error("kueue/unconstrained", "must be a boolean value", 'write "true", or remove it')

    def _named(self, part: Field) -> Named | None:
        key = part.text()
        if key is None:
            if part.value == "":
                part.error("kueue/label-name", "name part must be non-empty", "name a node label, or remove it")
            return None
        prefix, slash, name = key.rpartition("/")
        if len(name) > _LONGEST:
            part.error("kueue/label-name", f"name part must be no more than {_LONGEST} bytes", "name a node label")
        elif not _NAME.fullmatch(name):
            part.error(
                "kueue/label-name",
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                "alphanumeric character",
                "name a node label",
            )
        elif slash and (not _DNS.fullmatch(prefix) or len(prefix) > _LONGEST_PREFIX):
            part.error(
                "kueue/label-name",
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
                "'-' or '.', and must start and end with an alphanumeric character",
                "name a node label",
            )
        else:
            return Named(key, part)
        return None

    def _group(self) -> str | None:
        part = self._at(GROUP_NAME)
        name = part.text()
        if name is None:
            return None
        rule = "kueue/group-name"
        if name.isascii() and name.isdigit():
            part.error(rule, "must not be a number", "give the group a name with a letter in it")
        for key in (SLICE_SIZE, SLICE_REQUIRED, SLICE_LAYERS):
            if self._at(key):
                part.error(rule, f"may not be set when '{self._names[key]}' is specified", "keep one of them")
        if not self._at(PREFERRED) and not self._at(REQUIRED):
            part.error(
                rule,
                f"may not be set when neither '{self._names[PREFERRED]}' nor '{self._names[REQUIRED]}' is specified",
                f"set {self._names[REQUIRED]} on both pod sets of the group",
            )
        return name

    def _two_levels(self) -> tuple[Slices, ...]:
        level, size = self._at(SLICE_REQUIRED), self._at(SLICE_SIZE)
        rule = "kueue/slice-size"
        if level and not size:
            size.error(
                rule,
                f"must be set when '{self._names[SLICE_REQUIRED]}' is specified",
                "say how many pods share a domain",
            )
        if size and not level:
            size.error(
                rule,
                f"may not be set when '{self._names[SLICE_REQUIRED]}' is not specified",
                f"set {self._names[SLICE_REQUIRED]}, or remove it",
            )
        named, count = self._named(level), self._size(size)
        return (Slices(named, count),) if named and count else ()

    def _size(self, part: Field) -> int:
        """A slice size; 0 where there is none, or none that can be."""
        if not part:
            return 0
        rule, fix = "kueue/slice-size", "say how many pods share a domain"
        number = part.value
        if self._texts:
            text = part.text()
            try:
                number = int(text or "")
            except ValueError:
                if text:
                    part.error(rule, "must be a numeric value", fix)
                return 0
        if not isinstance(number, int) or isinstance(number, bool):
            part.wrong("a whole number of at least 1")
            return 0
        if number < 1:
            part.error(rule, "must be greater than or equal to 1", fix)
            return 0
        if number > self._set.count:
            part.error(rule, f"must not be greater than pod set count {self._set.count}", fix)
            return 0
        return number

    def _layers(self) -> tuple[Slices, ...]:
        part = self._at(SLICE_LAYERS)
        for key in (SLICE_REQUIRED, SLICE_SIZE):
            if self._at(key):
                part.error(
                    "kueue/slice-layers", f"may not be set when '{self._names[key]}' is specified", "keep one of them"
                )
        entries = self._parsed(part)
        if entries is None:
            return ()
        found: list[Slices] = []
        seen: dict[str, int] = {}
        sizes: list[int] = []
        for number, each in enumerate(entries):
            named = self._named(each / "topology")
            size = (each / "size").number(0)
            if size < 1:
                (each / "size").error("kueue/slice-layers", "must be greater than or equal to 1", "in pods")
            if named and named.key in seen:
                message = f"Duplicate value: {named.key} (also at index {seen[named.key]})"
                (each / "topology").error("kueue/slice-layers", message, "name each level once")
            if sizes and size and sizes[-1] % size:
                (each / "size").error(
                    "kueue/slice-layers", f"must evenly divide the parent layer size {sizes[-1]}", "change one of them"
                )
            if not number and size > self._set.count:
                message = f"must not be greater than pod set count {self._set.count}"
                (each / "size").error("kueue/slice-layers", message, "change one of them")
            sizes.append(size)
            if named:
                seen.setdefault(named.key, number)
                found.append(Slices(named, size))
        usable = len(found) == len(sizes) and all(sizes) and sizes[0] <= self._set.count
        return tuple(found) if usable else ()

    def _parsed(self, part: Field) -> list[Field] | None:
        """The layers; in an annotation they are JSON, and their path is that of the annotation."""
        holder = part
        if self._texts:
            text = part.text()
            try:
                value = json.loads(text) if text else None
            except (ValueError, RecursionError) as error:
                message = f"must be a valid JSON array: {error}"
                part.error("kueue/slice-layers", message, 'write [{"topology": "<label key>", "size": <pods>}, ...]')
                return None
            holder = Field(value, part.path, part.findings)
        if not isinstance(holder.value, list):
            holder.wrong("a list of {topology, size}")
            return None
        if not 1 <= len(holder.value) <= _MOST_LAYERS:
            message = f"must contain between 1 and {_MOST_LAYERS} constraints"
            part.error("kueue/slice-layers", message, "name the broadest level first")
            return None
        return list(holder.items())


_PAIR: Final = 2


def check_groups(requests: Iterable[Request]) -> None:
    """Note what is wrong with the groups that the pod sets form."""
    groups: dict[str, list[Request]] = {}
    for request in requests:
        if request.group:
            groups.setdefault(request.group, []).append(request)
    for name, members in groups.items():
        if len(members) != _PAIR:
            for member in members:
                _name_of(member).error(
                    "kueue/group-pair",
                    f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)",
                    f"let two pod sets have the group name {name!r}",
                )
            continue
        _check_pair(name, *members)


def _check_pair(name: str, one: Request, other: Request) -> None:
    counts = one.pod_set.count, other.pod_set.count
    for each in (one, other):
        if 1 not in counts:
            _name_of(each).error(
                "kueue/group-leader",
                "can only define groups where at least one pod set has only 1 replica, "
                f"got: {counts[0]} replica(s) and {counts[1]} replica(s) in the group",
                "one of the two is the leader, a single pod",
            )
    if _levels(one) != _levels(other):
        for each, beside in ((one, other), (other, one)):
            each.where.error(
                "kueue/group-levels",
                f"must specify '{REQUIRED}' or '{PREFERRED}' topology consistent with '{beside.where.path}' "
                f"in group '{name}'",
                "write the same annotation on both",
            )


def _levels(request: Request) -> tuple[str | None, str | None]:
    required, preferred = request.required, request.preferred
    return required.key if required else None, preferred.key if preferred else None


def _name_of(request: Request) -> Field:
    return request.where / GROUP_NAME or request.where / "podSetGroupName"
