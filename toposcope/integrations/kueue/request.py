"""The topology requests of pod sets, in annotations of pod templates or in a Workload.

Rules and messages: Kueue 0.19, the webhooks of its job integrations (`ValidateTASPodSetRequest`,
`ValidatePodSetGroupingTopology`).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
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
    SPREADING,
    UNCONSTRAINED,
    VERSION,
)

_LAYERS_RULE: Final = "kueue/slice-layers"
_MAX_LAYERS: Final = 3
_PAIR: Final = 2
"""The pod sets of a group: a leader and its workers."""
_EXPLICIT: Final = (REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_REQUIRED, SLICE_SIZE, SLICE_LAYERS)
_BOOLEANS: Final = frozenset(
    ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]
)
"""What Go's ParseBool accepts."""
_FALSE: Final = frozenset(["0", "f", "F", "FALSE", "false", "False"])
"""What it reads as false."""
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_MAX_NAME_BYTES: Final = 63


@dataclass(frozen=True, slots=True)
class RequestedLevel:
    """A level that the request names, and where."""

    key: str
    field: Field


@dataclass(frozen=True, slots=True)
class Slices:
    """Pods of the set in slices of `size`, each kept together at a level."""

    level: RequestedLevel
    size: int


@dataclass(frozen=True, slots=True)
class PodSetRequest:
    """What one pod set requests."""

    pod_set: PodSet
    where: Field
    """The annotations, or the topologyRequest."""
    required: RequestedLevel | None = None
    preferred: RequestedLevel | None = None
    slices: tuple[Slices, ...] = ()
    """Broadest first; inner layers divide outer ones."""
    group: str | None = None
    is_explicit: bool = True
    """Whether it requests anything about topology."""
    is_refused: bool = False
    """Whether no version of Kueue ever admits it."""
    doubts: tuple[str, ...] = ()
    """What it requests that is not checked, and why that matters."""

    @property
    def level(self) -> RequestedLevel | None:
        """The level for the whole set, required or preferred."""
        return self.required or self.preferred


def annotated(pod_set: PodSet) -> PodSetRequest:
    """The request in the annotations of a pod template."""
    return _Reader(pod_set, pod_set.annotations, ANNOTATIONS).request()


def of_workload(pod_set: PodSet, topology_request: Field) -> PodSetRequest:
    """The request of a pod set in a Kueue Workload."""
    return _Reader(pod_set, topology_request, FIELDS).request()


class _Reader:
    """Reads one request; what is wrong with it becomes findings."""

    def __init__(self, pod_set: PodSet, where: Field, names: dict[str, str]) -> None:
        self._set = pod_set
        self._where = where
        self._names = names
        self._strings = names is ANNOTATIONS
        """Annotations are strings, fields have types."""
        self._doubts: list[str] = []

    def request(self) -> PodSetRequest:
        """The whole request. Invalid values are recorded as findings and left out."""
        self._check_one()
        is_refused = self._check_unconstrained()
        self._check_spreading()
        group = self._group()
        required = self._named(self._at(REQUIRED))
        preferred = None
        if not self._at(REQUIRED):
            preferred = self._named(self._at(PREFERRED))
        slices = self._layers() if self._at(SLICE_LAYERS) else self._one_layer()
        return PodSetRequest(
            pod_set=self._set,
            where=self._where,
            required=required,
            preferred=preferred,
            slices=slices,
            group=group,
            is_explicit=any(self._at(key) for key in _EXPLICIT),
            is_refused=is_refused,
            doubts=tuple(self._doubts),
        )

    def _at(self, key: str) -> Field:
        return self._where / self._names[key]

    def _check_one(self) -> None:
        """Note several annotations that exclude each other."""
        names = []
        present = 0
        for key in (REQUIRED, PREFERRED, UNCONSTRAINED):
            names.append(f'"{self._names[key]}"')
            if self._at(key):
                present += 1
        if present > 1:
            text = f"must not contain more than one topology annotation: [{', '.join(names)}]"
            self._where.error("kueue/one-annotation", text, "keep only one of them")

    def _check_unconstrained(self) -> bool:
        """Note a value that is not a boolean, or is false. Returns whether Kueue rejects it."""
        field = self._at(UNCONSTRAINED)
        rule, fix = "kueue/unconstrained", 'set "true", or remove it'
        if self._strings:
            if not isinstance(field.value, str):
                field.text()
                return False
            if field.value not in _BOOLEANS:
                field.error(rule, "must be a boolean value", fix)
                return True
            is_false = field.value in _FALSE
        else:
            is_false = bool(field) and not field.flag(default=True)
            fix = "set true, or remove it"
        has_level = self._at(REQUIRED) or self._at(PREFERRED)
        if not is_false or has_level:
            return False
        if self._at(SLICE_REQUIRED) or self._at(SLICE_LAYERS):
            # Slices alone have the highest level, whatever this says.
            field.warn(rule, f"{VERSION} ignores it with slices; later versions reject it", fix)
            return False
        text = f"{VERSION} reads it as a request without a level and never admits it"
        field.error(rule, f"{text}; later versions reject it", fix)
        return True

    def _check_spreading(self) -> None:
        """Record doubts about fields that only later versions read."""
        field = self._where / SPREADING
        if field:
            self._doubts.append(
                f"{field.path}: {VERSION} ignores it; later versions may exclude domains by it "
                "(TASTopologySpreading), which is not checked"
            )

    def _named(self, field: Field) -> RequestedLevel | None:
        """The label key that it names; None if missing or invalid."""
        rule = "kueue/label-name"
        key = field.text()
        if key is None:
            if field.value == "":
                text = "name part must be non-empty"
                field.error(rule, text, "name a node label, or remove it")
            return None
        mistake = _not_a_label_key(key)
        if mistake:
            field.error(rule, mistake, "name a node label")
            return None
        return RequestedLevel(key, field)

    def _group(self) -> str | None:
        """The name of the group of pod sets."""
        field = self._at(GROUP_NAME)
        name = field.text()
        if name is None:
            return None
        rule = "kueue/group-name"
        if name.isascii() and name.isdigit():
            field.error(rule, "must not be a number", "give the group a name with a letter in it")
        for key in (SLICE_SIZE, SLICE_REQUIRED, SLICE_LAYERS):
            if self._at(key):
                text = f"may not be set when '{self._names[key]}' is specified"
                field.error(rule, text, "keep one of them")
        if not self._at(PREFERRED) and not self._at(REQUIRED):
            text = (
                f"may not be set when neither '{self._names[PREFERRED]}' nor "
                f"'{self._names[REQUIRED]}' is specified"
            )
            field.error(rule, text, f"set {self._names[REQUIRED]} on both pod sets of the group")
        return name

    def _one_layer(self) -> tuple[Slices, ...]:
        """Slices of one level and size; empty if either is missing or invalid."""
        level = self._at(SLICE_REQUIRED)
        size = self._at(SLICE_SIZE)
        rule = "kueue/slice-size"
        name = self._names[SLICE_REQUIRED]
        if level and not size:
            text = f"must be set when '{name}' is specified"
            size.error(rule, text, "set how many pods share a domain")
        if size and not level:
            text = f"may not be set when '{name}' is not specified"
            size.error(rule, text, f"set {name}, or remove it")
        named = self._named(level)
        pods = self._size(size)
        if named is None or not pods:
            return ()
        return (Slices(named, pods),)

    def _size(self, field: Field) -> int:
        """A slice size; 0 if missing or invalid."""
        if not field:
            return 0
        rule, fix = "kueue/slice-size", "set how many pods share a domain"
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
        """Nested slices; empty if one of them is invalid."""
        layers = self._at(SLICE_LAYERS)
        for key in (SLICE_REQUIRED, SLICE_SIZE):
            if self._at(key):
                text = f"may not be set when '{self._names[key]}' is specified"
                layers.error(_LAYERS_RULE, text, "keep one of them")
        parsed = self._parsed(layers)
        if any(layer / "sizes" for layer in parsed):
            self._doubts.append(
                f"{layers.path}: sizes lists a size for each domain, which {VERSION} ignores and "
                "which is not checked"
            )
            return ()
        slices = self._valid_layers(parsed)
        if not slices or len(slices) < len(parsed):
            return ()
        if slices[0].size > self._set.count:
            return ()
        return tuple(slices)

    def _valid_layers(self, layers: Sequence[Field]) -> list[Slices]:
        slices: list[Slices] = []
        index_of: dict[str, int] = {}
        sizes: list[int] = []
        for index, layer in enumerate(layers):
            level = self._named(layer / "topology")
            size = (layer / "size").number(0)
            if size < 1:
                text = "must be greater than or equal to 1"
                (layer / "size").error(_LAYERS_RULE, text, "in pods")
            if level:
                _check_repeated(layer / "topology", level.key, index_of)
                index_of.setdefault(level.key, index)
            self._check_layer_size(layer / "size", size, sizes)
            sizes.append(size)
            if level and size:
                slices.append(Slices(level, size))
        return slices

    def _check_layer_size(self, field: Field, size: int, above: Sequence[int]) -> None:
        """Note a size that does not divide the one around it, or exceeds the number of pods."""
        text = ""
        if not above:
            if size > self._set.count:
                text = f"must not be greater than pod set count {self._set.count}"
        elif size and above[-1] % size:
            text = f"must evenly divide the parent layer size {above[-1]}"
        if text:
            field.error(_LAYERS_RULE, text, "change one of them")

    def _parsed(self, layers: Field) -> list[Field]:
        """The layers. In an annotation they are JSON, with the path of the annotation."""
        parsed = layers
        if self._strings:
            text = layers.text()
            try:
                value = json.loads(text) if text else None
            except (ValueError, RecursionError) as error:
                message = f"must be a valid JSON array: {error}"
                fix = 'use [{"topology": "<label key>", "size": <pods>}, ...]'
                layers.error(_LAYERS_RULE, message, fix)
                return []
            parsed = Field(value, layers.path, layers.findings)
        if not isinstance(parsed.value, list):
            parsed.wrong("a list of {topology, size}")
            return []
        if not 1 <= len(parsed.value) <= _MAX_LAYERS:
            message = f"must contain between 1 and {_MAX_LAYERS} constraints"
            layers.error(_LAYERS_RULE, message, "name the broadest level first")
            return []
        return list(parsed.items())


def _not_a_label_key(key: str) -> str:
    """Kubernetes' error for a label key; empty if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if len(name) > _MAX_NAME_BYTES:
        return f"name part must be no more than {_MAX_NAME_BYTES} bytes"
    if not _NAME.fullmatch(name):
        return (
            "name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
    if slash and not is_name(prefix):
        return (
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
    return ""


def _check_repeated(field: Field, key: str, index_of: Mapping[str, int]) -> None:
    """Note a level that another layer already names."""
    first = index_of.get(key)
    if first is not None:
        message = f"Duplicate value: {key} (also at index {first})"
        field.error(_LAYERS_RULE, message, "name each level once")


def _grouped(requests: Iterable[PodSetRequest]) -> dict[str, list[PodSetRequest]]:
    """The requests of each group of pod sets."""
    groups: dict[str, list[PodSetRequest]] = {}
    for request in requests:
        if request.group:
            groups.setdefault(request.group, []).append(request)
    return groups


def check_groups(requests: Iterable[PodSetRequest], *, is_checked_by_webhook: bool) -> None:
    """Note what is wrong with the groups that pod sets form, of a leader and its workers.

    `is_checked_by_webhook`: whether the webhook of the workload's kind rejects other groups.
    """
    for name, members in _grouped(requests).items():
        if len(members) == _PAIR:
            _check_same_nodes(*members)
        if not is_checked_by_webhook:
            continue
        if len(members) == _PAIR:
            _check_pair(name, *members)
        else:
            _note_no_pair(name, members)


def doubted_groups(requests: Iterable[PodSetRequest]) -> list[str]:
    """Groups that no webhook rejects, but that are not a leader with its workers.

    A group of one pod set is placed as if it were in none.
    """
    doubts = []
    for name, members in _grouped(requests).items():
        counts = [request.pod_set.count for request in members]
        if len(members) == 1 or (len(members) == _PAIR and 1 in counts):
            continue
        doubts.append(
            f"{_group_name(members[0]).path}: {VERSION} places a leader, a single pod, with its "
            f"workers, and group {name!r} has {len(members)} pod sets of "
            f"{', '.join(str(count) for count in counts)} pods"
        )
    return doubts


def _note_no_pair(name: str, members: Sequence[PodSetRequest]) -> None:
    text = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
    fix = f"use the group name {name!r} on exactly two pod sets"
    for request in members:
        _group_name(request).error("kueue/group-pair", text, fix)


def _check_pair(name: str, first: PodSetRequest, second: PodSetRequest) -> None:
    _check_has_leader(first, second)
    if _keys(first) != _keys(second):
        _note_level_unlike(name, first, second)
        _note_level_unlike(name, second, first)


def _check_has_leader(first: PodSetRequest, second: PodSetRequest) -> None:
    """Note a group in which no pod set is a single pod."""
    count, other_count = first.pod_set.count, second.pod_set.count
    if count == 1 or other_count == 1:
        return
    text = (
        "can only define groups where at least one pod set has only 1 replica, "
        f"got: {count} replica(s) and {other_count} replica(s) in the group"
    )
    for request in (first, second):
        field = _group_name(request)
        field.error("kueue/group-leader", text, "one of the two must be the leader, a single pod")


def _check_same_nodes(first: PodSetRequest, second: PodSetRequest) -> None:
    """Note a leader that selects other nodes than its workers."""
    leader, workers = first.pod_set, second.pod_set
    if leader.count >= workers.count:
        leader, workers = workers, leader
    if leader.pods.node_filter == workers.pods.node_filter:
        return
    (leader.template / "spec").warn(
        "kueue/leader-nodes",
        "Kueue 0.19 looks for the leader's node by the node selector, "
        "affinity and tolerations of the workers, "
        "and these differ",
        f"set the same as in {(workers.template / 'spec').path}",
    )


def _note_level_unlike(name: str, request: PodSetRequest, partner: PodSetRequest) -> None:
    """Note that the two pod sets of a group name different levels."""
    request.where.error(
        "kueue/group-levels",
        f"must specify '{REQUIRED}' or '{PREFERRED}' topology consistent with "
        f"'{partner.where.path}' in group '{name}'",
        "set the same annotation on both",
    )


def _keys(request: PodSetRequest) -> tuple[str | None, str | None]:
    required, preferred = request.required, request.preferred
    return (
        required.key if required else None,
        preferred.key if preferred else None,
    )


def _group_name(request: PodSetRequest) -> Field:
    return request.where / GROUP_NAME or request.where / FIELDS[GROUP_NAME]
