"""What one pod set asks of Kueue, in the annotations of its pod template or in a Workload.

And groups of pod sets. Rules and messages: Kueue 0.19, the webhooks of its job integrations
(`ValidateTASPodSetRequest`, `ValidatePodSetGroupingTopology`).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_values import is_name
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.pods import PodSet
from toposcope.integrations.kueue.api import (
    ANNOTATIONS,
    FIELDS,
    GROUP_NAME,
    PREFERRED,
    REQUIRED,
    SLICE_LAYERS,
    SLICE_REQUIRED,
    SLICE_SIZE,
    UNCONSTRAINED,
)

_MAX_LAYERS: Final = 3
_EXPLICIT: Final = (REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_REQUIRED, SLICE_SIZE, SLICE_LAYERS)
_BOOLEANS: Final = frozenset(
    ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]
)
"""What Go's ParseBool takes."""
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_MAX_NAME: Final = 63


@dataclass(frozen=True, slots=True)
class NamedLevel:
    """A level that the request names, and where."""

    key: str
    field: Field


@dataclass(frozen=True, slots=True)
class Slices:
    """Pods of the set in slices of `size`, each kept together at a level."""

    level: NamedLevel
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """One pod set's request."""

    pod_set: PodSet
    where: Field
    """The annotations, or the topologyRequest."""
    required: NamedLevel | None = None
    preferred: NamedLevel | None = None
    slices: tuple[Slices, ...] = ()
    """Broadest first; the inner ones divide the outer ones."""
    group: str | None = None
    explicit: bool = True
    """Whether it says anything of topology."""

    @property
    def level(self) -> NamedLevel | None:
        """The level for the whole set, required or preferred."""
        return self.required or self.preferred


def annotated(pod_set: PodSet) -> Request:
    """The request in the annotations of a pod template."""
    return _Reader(pod_set, pod_set.annotations, ANNOTATIONS).request()


def of_workload(pod_set: PodSet, topology_request: Field) -> Request:
    """The request of a pod set in a Kueue Workload."""
    return _Reader(pod_set, topology_request, FIELDS).request()


class _Reader:
    def __init__(self, pod_set: PodSet, where: Field, names: dict[str, str]) -> None:
        self._set = pod_set
        self._where = where
        self._names = names
        self._strings = names is ANNOTATIONS
        """Annotations are strings, fields have types."""

    def request(self) -> Request:
        """All of it; invalid values become findings and are left out."""
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
            any(self._at(key) for key in _EXPLICIT),
        )

    def _at(self, key: str) -> Field:
        return self._where / self._names[key]

    def _check_one(self) -> None:
        kinds = (REQUIRED, PREFERRED, UNCONSTRAINED)
        if sum(bool(self._at(key)) for key in kinds) > 1:
            listed = ", ".join(f'"{self._names[key]}"' for key in kinds)
            text = f"must not contain more than one topology annotation: [{listed}]"
            self._where.error("kueue/one-annotation", text, "keep the one that you mean")

    def _check_unconstrained(self) -> None:
        field = self._at(UNCONSTRAINED)
        if not self._strings:
            field.flag()
        elif not isinstance(field.value, str):
            field.text()
        elif field.value not in _BOOLEANS:
            field.error(
                "kueue/unconstrained", "must be a boolean value", 'write "true", or remove it'
            )

    def _named(self, field: Field) -> NamedLevel | None:
        key = field.text()
        if key is None:
            if field.value == "":
                field.error(
                    "kueue/label-name",
                    "name part must be non-empty",
                    "name a node label, or remove it",
                )
            return None
        prefix, slash, name = key.rpartition("/")
        if len(name) > _MAX_NAME:
            field.error(
                "kueue/label-name",
                f"name part must be no more than {_MAX_NAME} bytes",
                "name a node label",
            )
        elif not _NAME.fullmatch(name):
            field.error(
                "kueue/label-name",
                "name part must consist of alphanumeric characters, '-', '_' or '.', "
                "and must start and end with an "
                "alphanumeric character",
                "name a node label",
            )
        elif slash and not is_name(prefix):
            field.error(
                "kueue/label-name",
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case "
                "alphanumeric characters, "
                "'-' or '.', and must start and end with an alphanumeric character",
                "name a node label",
            )
        else:
            return NamedLevel(key, field)
        return None

    def _group(self) -> str | None:
        field = self._at(GROUP_NAME)
        name = field.text()
        if name is None:
            return None
        rule = "kueue/group-name"
        if name.isascii() and name.isdigit():
            field.error(rule, "must not be a number", "give the group a name with a letter in it")
        for key in (SLICE_SIZE, SLICE_REQUIRED, SLICE_LAYERS):
            if self._at(key):
                field.error(
                    rule,
                    f"may not be set when '{self._names[key]}' is specified",
                    "keep one of them",
                )
        if not self._at(PREFERRED) and not self._at(REQUIRED):
            text = (
                f"may not be set when neither '{self._names[PREFERRED]}' nor "
                f"'{self._names[REQUIRED]}' is specified"
            )
            field.error(rule, text, f"set {self._names[REQUIRED]} on both pod sets of the group")
        return name

    def _two_levels(self) -> tuple[Slices, ...]:
        level, size = self._at(SLICE_REQUIRED), self._at(SLICE_SIZE)
        rule = "kueue/slice-size"
        if level and not size:
            text = f"must be set when '{self._names[SLICE_REQUIRED]}' is specified"
            size.error(rule, text, "say how many pods share a domain")
        if size and not level:
            text = f"may not be set when '{self._names[SLICE_REQUIRED]}' is not specified"
            size.error(rule, text, f"set {self._names[SLICE_REQUIRED]}, or remove it")
        named, count = self._named(level), self._size(size)
        return (Slices(named, count),) if named and count else ()

    def _size(self, field: Field) -> int:
        """A slice size; 0 where there is none, or an invalid one."""
        if not field:
            return 0
        rule, fix = "kueue/slice-size", "say how many pods share a domain"
        number = field.value
        if self._strings:
            text = field.text()
            try:
                number = int(text or "")
            except ValueError:
                if text:
                    field.error(rule, "must be a numeric value", fix)
                return 0
        if not isinstance(number, int) or isinstance(number, bool):
            field.wrong("a whole number of at least 1")
            return 0
        if number < 1:
            field.error(rule, "must be greater than or equal to 1", fix)
            return 0
        if number > self._set.count:
            field.error(rule, f"must not be greater than pod set count {self._set.count}", fix)
            return 0
        return number

    def _layers(self) -> tuple[Slices, ...]:
        rule, layers = "kueue/slice-layers", self._at(SLICE_LAYERS)
        for key in (SLICE_REQUIRED, SLICE_SIZE):
            if self._at(key):
                layers.error(
                    rule,
                    f"may not be set when '{self._names[key]}' is specified",
                    "keep one of them",
                )
        slices: list[Slices] = []
        first_use: dict[str, int] = {}
        sizes: list[int] = []
        for number, layer in enumerate(self._parsed(layers)):
            level = self._named(layer / "topology")
            size = (layer / "size").number(0)
            if size < 1:
                (layer / "size").error(rule, "must be greater than or equal to 1", "in pods")
            if level and level.key in first_use:
                message = f"Duplicate value: {level.key} (also at index {first_use[level.key]})"
                (layer / "topology").error(rule, message, "name each level once")
            if sizes and size and sizes[-1] % size:
                text = f"must evenly divide the parent layer size {sizes[-1]}"
                (layer / "size").error(rule, text, "change one of them")
            if not number and size > self._set.count:
                text = f"must not be greater than pod set count {self._set.count}"
                (layer / "size").error(rule, text, "change one of them")
            sizes.append(size)
            if level:
                first_use.setdefault(level.key, number)
                slices.append(Slices(level, size))
        usable = sizes and len(slices) == len(sizes) and all(sizes) and sizes[0] <= self._set.count
        return tuple(slices) if usable else ()

    def _parsed(self, layers: Field) -> list[Field]:
        """The layers; in an annotation they are JSON, and their path is that of the annotation."""
        parsed = layers
        if self._strings:
            text = layers.text()
            try:
                parsed = Field(json.loads(text) if text else None, layers.path, layers.findings)
            except (ValueError, RecursionError) as error:
                fix = 'write [{"topology": "<label key>", "size": <pods>}, ...]'
                layers.error("kueue/slice-layers", f"must be a valid JSON array: {error}", fix)
                return []
        if not isinstance(parsed.value, list):
            parsed.wrong("a list of {topology, size}")
            return []
        if not 1 <= len(parsed.value) <= _MAX_LAYERS:
            message = f"must contain between 1 and {_MAX_LAYERS} constraints"
            layers.error("kueue/slice-layers", message, "name the broadest level first")
            return []
        return list(parsed.items())


def check_groups(requests: Iterable[Request]) -> None:
    """Note what is wrong with the groups that pod sets form.

    A leader and its workers in one domain.
    """
    groups: dict[str, list[Request]] = {}
    for request in requests:
        if request.group:
            groups.setdefault(request.group, []).append(request)
    for name, members in groups.items():
        if len(members) == 2:  # noqa: PLR2004 - all that Kueue allows
            _check_pair(name, *members)
            continue
        for request in members:
            text = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
            _group_name(request).error(
                "kueue/group-pair", text, f"let two pod sets have the group name {name!r}"
            )


def _check_pair(name: str, one: Request, other: Request) -> None:
    counts = one.pod_set.count, other.pod_set.count
    for request in (one, other):
        if 1 not in counts:
            _group_name(request).error(
                "kueue/group-leader",
                "can only define groups where at least one pod set has only 1 replica, "
                f"got: {counts[0]} replica(s) and {counts[1]} replica(s) in the group",
                "one of the two is the leader, a single pod",
            )
    leader, workers = (one, other) if one.pod_set.count < other.pod_set.count else (other, one)
    if leader.pod_set.pods.node_filter != workers.pod_set.pods.node_filter:
        (leader.pod_set.template / "spec").warn(
            "kueue/leader-nodes",
            "Kueue 0.19 looks for the leader's node by the node selector, "
            "affinity and tolerations of the workers, "
            "and these differ",
            f"write the same as in {(workers.pod_set.template / 'spec').path}",
        )
    if _keys(one) != _keys(other):
        for request, partner in ((one, other), (other, one)):
            request.where.error(
                "kueue/group-levels",
                f"must specify '{REQUIRED}' or '{PREFERRED}' topology consistent with "
                f"'{partner.where.path}' "
                f"in group '{name}'",
                "write the same annotation on both",
            )


def _keys(request: Request) -> tuple[str | None, str | None]:
    required, preferred = request.required, request.preferred
    return required.key if required else None, preferred.key if preferred else None


def _group_name(request: Request) -> Field:
    return request.where / GROUP_NAME or request.where / FIELDS[GROUP_NAME]
