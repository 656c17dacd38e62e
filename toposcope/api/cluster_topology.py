"""A ClusterTopology's spec, read and checked.

The CRD's rules refuse most mistakes at the API server; what gets past them (an older CRD, a server
without CEL) is found here and reported in conditions instead of crashing anything. A field of
another type is ignored, and reported.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from toposcope.api.label_keys import GPUS, SLINKY_KEPT, is_own_input, unique_key
from toposcope.api.levels import Level, domain_problem, level_problems
from toposcope.api.requirement import Labelled, Requirement
from toposcope.text import printable, type_words


class _Expression(msgspec.Struct, frozen=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _Level(msgspec.Struct, frozen=True):
    domain: str = ""
    key: str = ""


_SPEC: Final[dict[str, Any]] = {
    "nodeSelector": _Selector,
    "levels": list[_Level],
    "required": list[str],
    "minCoveragePercent": int,
    "gracePeriod": str,
    "removalPolicy": str,
    "segments": str,
    "uniqueValues": list[str],
    "bindingSchedulers": list[str],
    "publish": dict[str, str],
}


class _StatusLevel(msgspec.Struct, frozen=True):
    domain: str
    key: str
    available: bool = True
    expired: bool = False
    retained: bool = False


class _StatusCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _UnavailableLevel(msgspec.Struct, frozen=True):
    domain: str


class _RequiredLevel(msgspec.Struct, frozen=True):
    domain: str
    workloads: int


class _PreferredLevel(_RequiredLevel, frozen=True):
    available: bool


class _PublishedObject(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    name: str
    in_sync: bool
    message: str = ""


class _StatusSegment(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    levels: list[_StatusLevel] | None = None
    first_nodes: list[str] | None = None
    node_selector: dict[str, Any] | None = None


class _StatusRebuild(msgspec.Struct, frozen=True):
    before: str = msgspec.field(name="from")
    after: str = msgspec.field(name="to")
    nodes: int
    time: str
    left: int = 0
    chassis: list[str] | None = None


class _StatusFabric(msgspec.Struct, frozen=True):
    rebuilds: list[_StatusRebuild] | None = None


_STATUS: Final[dict[str, Any]] = {
    "levels": list[_StatusLevel],
    "conditions": list[_StatusCondition],
    "unavailableLevels": list[_UnavailableLevel],
    "requiredBy": list[_RequiredLevel],
    "preferredBy": list[_PreferredLevel],
    "published": list[_PublishedObject],
    "segments": list[_StatusSegment],
    "fabric": _StatusFabric,
}


def typed_spec(spec: Any) -> tuple[dict[str, Any], list[str]]:
    """The correctly typed fields of a spec, and a sentence about each other one."""
    if spec is None:
        return {}, []
    if not isinstance(spec, dict):
        return {}, ["spec: is not a mapping; write fields such as levels below it"]
    problems: list[str] = []
    return _typed(spec, _SPEC, problems), problems


def typed_status(status: Any) -> dict[str, Any]:
    """The correctly typed fields of a status; the others are ignored."""
    if not isinstance(status, dict):
        return {}
    return _typed(status, _STATUS, problems=[])


def _typed(
    untyped: Mapping[str, Any], types: Mapping[str, Any], problems: list[str]
) -> dict[str, Any]:
    fields = dict(untyped)
    for name in untyped.keys() & types.keys():
        if untyped[name] is None:
            continue  # as if it were absent
        try:
            msgspec.convert(untyped[name], types[name])
        except (msgspec.ValidationError, RecursionError) as error:
            words, _, path = str(error).partition(" - at `$")
            place = path.rstrip("`")
            problem = printable(type_words(words))
            problems.append(f"spec.{name}{place}: {problem}; it is left out")
            del fields[name]
    problems.sort()
    return fields


_MOST_VALUES: Final = 512
"""Of all expressions of a selector, as in the CRD: hundreds of larger ones would outgrow the
controller's memory."""
_NO_NODE: Final = {
    "matchExpressions": [{"key": "gpu.topology/gpus", "operator": "In", "values": []}]
}
"""A selector that no label meets."""

GROUP: Final = "gpu.topology"
VERSION: Final = "v1alpha1"
KIND: Final = "ClusterTopology"
USUAL_COVERAGE_PERCENT: Final = 95
"""Percentage of nodes that make a label a level: in a large cluster some node always lacks it."""
API_VERSION: Final = f"{GROUP}/{VERSION}"
PATH: Final = f"/apis/{API_VERSION}/clustertopologies"

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
TOPOSCOPE: Final = "toposcope"
"""Label and value of every object that the controller makes."""

_ONLY_IF_ASKED: Final = frozenset({"volcano", "slinky"})
"""Fields of `spec.publish` that are Never by default: Volcano may have HyperNodes of its own
discovery, and agents need one more right for Slinky's annotations."""
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(h|ms|m|s)")
DEFAULT_GRACE_SECONDS: Final = 600.0
_MOST_UNIQUE_CHARACTERS: Final = 56
"""Characters of a level in the name of a label, which has up to 63."""
_LONGEST_SECONDS: Final = 366 * 24 * 3600.0
"""System calls cannot wait longer."""


_EVERY_GPU_NODE: Final = (Requirement(GPUS, "Exists"),)


@dataclass(frozen=True, slots=True)
class Topology:
    """One ClusterTopology as the API server holds it, with its spec understood."""

    name: str
    uid: str
    generation: int
    selector: tuple[Requirement, ...]
    levels: tuple[Level, ...] | None
    """None: to be inferred."""
    required: tuple[str, ...]
    min_coverage_percent: int
    """Percentage of the nodes that must carry an inferred level, 1 to 100."""
    grace_seconds: float
    """Seconds."""
    is_retaining: bool
    publish: Mapping[str, str]
    is_divided: bool
    """Whether each segment of the nodes gets a ClusterTopology of its own."""
    unique: tuple[str, ...]
    """Levels whose domains each get a label with a value of their own on the nodes."""
    binding_schedulers: tuple[str, ...] | None
    """Schedulers whose topology a binding names, whatever there was before; None: not known."""
    problems: tuple[str, ...]
    """What is wrong with the spec, one sentence each; the parts without a problem stay in force."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """The stored status, as this controller or its predecessor wrote it last."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The spec as it was written."""
    owner: str = ""
    """Uid of the parent, if the controller created this ClusterTopology for a segment of it; else
    empty."""
    created: str = ""
    """When it was created, as the API server writes it: earlier ones sort first."""

    def selects(self, node: Labelled) -> bool:
        """Whether the node belongs to this topology."""
        return all(requirement.holds(node) for requirement in self.selector)

    @property
    def has_current_status(self) -> bool:
        """Whether the status was written for the spec as it is now."""
        return self.status.get("observedGeneration") == self.generation

    @property
    def last_levels(self) -> tuple[Level, ...]:
        """The levels of the spec, else those that were in effect when the status was written."""
        if self.levels is not None:
            return self.levels
        levels = []
        for entry in self.status.get("levels") or ():
            level = Level(entry["domain"], entry["key"])
            levels.append(level)
        return tuple(levels)

    def mode(self, option: str) -> str:
        """The value of a field of `spec.publish`, else its default: `Auto`, `Never` or `DryRun`."""
        mode = self.publish.get(option)
        if mode:
            return mode
        return "Never" if option in _ONLY_IF_ASKED else "Auto"

    def label_keys(self) -> frozenset[str]:
        """Every node label that this spec names, and those that agents write for it."""
        keys = {requirement.key for requirement in self.selector}
        for level in self.levels or ():
            keys.add(level.key)
        for domain in self.unique:
            keys.add(unique_key(domain))
        if self.slinky:
            keys.add(SLINKY_KEPT)
        return frozenset(keys)

    @property
    def slinky(self) -> bool:
        """Whether it is about Slinky's annotation, if only as a dry run."""
        return self.mode("slinky") != "Never"


def seconds(text: str) -> float:
    """A Go duration such as `1h30m` in seconds. Raises ValueError."""
    total = 0.0
    understood = ""
    for number, unit in _DURATION.findall(text):
        total += float(number) * _UNITS[unit]
        understood += f"{number}{unit}"
    if not text or understood != text:
        raise ValueError(
            f"{text!r} is not a duration; write numbers with the units h, m, s or ms, as in '10m'"
        )
    if total > _LONGEST_SECONDS:
        raise ValueError(
            f"{text[:20]!r} is more than a year; a period is minutes or hours, as in '10m'"
        )
    return total


def read(document: Mapping[str, Any]) -> Topology:
    """Parse one ClusterTopology object. A bad spec raises nothing: see `Topology.problems`."""
    metadata = document["metadata"]
    spec, problems = typed_spec(document.get("spec"))
    problems += _check_selector_size(spec)
    owner = _owner(metadata)
    levels = _levels(spec, problems)
    required = tuple(dict.fromkeys(spec.get("required") or ()))
    for place, name in enumerate(required):
        problem = domain_problem(name)
        if problem:
            problems.append(f"spec.required[{place}]: {problem}")
    selector = _selector(spec.get("nodeSelector"))
    return Topology(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        selector=selector,
        levels=levels,
        required=required,
        unique=_unique(spec, selector, problems),
        binding_schedulers=_schedulers(spec),
        min_coverage_percent=_coverage(spec, problems),
        grace_seconds=_grace(spec, problems),
        is_retaining=spec.get("removalPolicy") == "Retain",
        publish=dict(spec.get("publish") or {}),
        # A segment's nodes carry the same levels: there is nothing to divide.
        is_divided=spec.get("segments") == "Auto" and not owner,
        problems=tuple(problems),
        status=typed_status(document.get("status")),
        spec=spec,
        owner=owner,
        created=str(metadata.get("creationTimestamp") or ""),
    )


def _check_selector_size(spec: dict[str, Any]) -> Iterator[str]:
    """Have the spec select no node if its selector has too many values, and say so."""
    values = _values_in(spec.get("nodeSelector"))
    if values > _MOST_VALUES:
        spec["nodeSelector"] = _NO_NODE
        yield (
            f"spec.nodeSelector.matchExpressions: {values} values in all, "
            f"and {_MOST_VALUES} are supported; give the nodes a label of their own "
            "and select by that; until then no node is selected"
        )


def _levels(spec: Mapping[str, Any], problems: list[str]) -> tuple[Level, ...] | None:
    """The levels of the spec; None where they are to be inferred."""
    entries = spec.get("levels")
    if not entries:
        return None
    levels = tuple([Level(entry.get("domain", ""), entry.get("key", "")) for entry in entries])
    problems += level_problems(levels)
    if spec.get("segments") == "Auto":
        problems.append(
            "spec.segments: Auto infers the levels of each segment; "
            "remove spec.levels, or set it to Off"
        )
    return levels


def _unique(
    spec: Mapping[str, Any], selector: Iterable[Requirement], problems: list[str]
) -> tuple[str, ...]:
    """The levels of `spec.uniqueValues` that can have a label of their own."""
    unique = []
    names = dict.fromkeys(spec.get("uniqueValues") or ())
    for place, name in enumerate(names):
        problem = _not_unique(name)
        if problem:
            problems.append(f"spec.uniqueValues[{place}]: {problem}")
        else:
            unique.append(name)

    keys = [requirement.key for requirement in selector]
    feeding = list(filter(is_own_input, keys))
    if names and feeding:
        first = min(feeding)
        problems.append(
            f"spec.nodeSelector: {first} is written because of spec.uniqueValues; "
            "select nodes by another label"
        )
        return ()
    return tuple(unique)


def _schedulers(spec: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The names in `spec.bindingSchedulers`; None where it is not set."""
    names = spec.get("bindingSchedulers")
    return None if names is None else tuple(names)


def _coverage(spec: Mapping[str, Any], problems: list[str]) -> int:
    """The percentage of nodes that must carry an inferred level."""
    coverage = spec.get("minCoveragePercent")
    if coverage is None:
        return USUAL_COVERAGE_PERCENT
    if not 1 <= coverage <= 100:  # noqa: PLR2004 - a percentage
        problems.append(
            f"spec.minCoveragePercent: {coverage} is not a percentage from 1 to 100; "
            f"{USUAL_COVERAGE_PERCENT} is used"
        )
        return USUAL_COVERAGE_PERCENT
    return int(coverage)


def _grace(spec: Mapping[str, Any], problems: list[str]) -> float:
    """The grace period in seconds."""
    try:
        return seconds(spec.get("gracePeriod") or "10m")
    except ValueError as error:
        problems.append(f"spec.gracePeriod: {error}; 10m is used")
        return DEFAULT_GRACE_SECONDS


def _not_unique(domain: str) -> str:
    """Why no label can tell the domains of this level apart; empty where one can."""
    if len(domain) > _MOST_UNIQUE_CHARACTERS:
        return (
            f"{domain[:20]!r}... is too long for the name of a label: "
            f"use up to {_MOST_UNIQUE_CHARACTERS} characters"
        )
    return domain_problem(domain)


def _owner(metadata: Mapping[str, Any]) -> str:
    """Uid of the ClusterTopology that the controller created this object for."""
    labels = metadata.get("labels")
    if not isinstance(labels, dict) or labels.get(MANAGED_BY) != TOPOSCOPE:
        return ""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list):
        return ""
    for owner in owners:
        if isinstance(owner, dict) and _is_parent(owner):
            uid = owner.get("uid", "")
            return str(uid)
    return ""


def _is_parent(owner: Mapping[str, Any]) -> bool:
    """Whether a reference to an owner is one to a ClusterTopology that controls the object."""
    if owner.get("kind") != KIND:
        return False
    return bool(owner.get("controller"))


def _values_in(selector: Mapping[str, Any] | None) -> int:
    """How many values a selector's expressions name."""
    if not selector:
        return 0
    count = 0
    for entry in selector.get("matchExpressions") or ():
        count += len(entry.get("values") or ())
    return count


def _selector(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...]:
    if not selector:
        return _EVERY_GPU_NODE
    return requirements(selector)


def requirements(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """What a label selector that says something asks of a node."""
    requirements = []
    labels = selector.get("matchLabels") or {}
    for key, value in labels.items():
        requirement = Requirement(key, "In", frozenset({value}))
        requirements.append(requirement)
    for entry in selector.get("matchExpressions") or ():
        values = entry.get("values") or ()
        requirement = Requirement(
            key=entry["key"],
            operator=entry["operator"],
            values=frozenset(values),
        )
        requirements.append(requirement)
    return tuple(requirements)
