"""The levels of one topology, as documents of other systems name them.

Reads them, compares them, and checks them before an export.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec

from toposcope.api.levels import Level, level_problems
from toposcope.errors import ToposcopeError
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.document import FixSuggestion

_T = TypeVar("_T")
_NOT_IN_A_DOMAIN: Final = re.compile(r"[^a-z0-9]+")
_MAX_DOMAIN_CHARACTERS: Final = 50


@dataclass(frozen=True, slots=True)
class TopologyLevels:
    """The levels of one topology, broadest first, and the names that documents have for them."""

    name: str
    levels: tuple[Level, ...]
    source: str = "ClusterTopology"
    """The kind of object that lists them."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Alias and label key, where the topology resource has aliases."""
    is_inferred: bool = False
    """Whether no object lists them, so they follow from the labels of the nodes."""
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    """The domains of each node by level key, if objects list the nodes instead of labels."""
    defect: str = ""
    """Why its scheduler cannot place by it; empty if it can."""
    doubt: str = ""
    """Why a domain may have more nodes than `places` says; empty if these are all."""

    def by_domain(self, domain: str) -> Level | None:
        """The level of a domain (`rack`)."""
        for level in self.levels:
            if level.domain == domain:
                return level
        return None

    def by_key(self, key: str) -> Level | None:
        """The level of a label key or of an alias for one."""
        aliases = dict(self.aliases)
        label = aliases.get(key, key)
        for level in self.levels:
            if level.key == label:
                return level
        return None

    def level(self, name: str) -> Level | None:
        """The level of a domain or of a label key."""
        for level in self.levels:
            if name in (level.domain, level.key):
                return level
        return None

    def rank(self, level: Level) -> int:
        """0 for the broadest level, one more for each narrower one."""
        return self.levels.index(level)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the levels."""
        return tuple(level.domain for level in self.levels)

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys of the levels."""
        return tuple(level.key for level in self.levels)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """`did you mean 'rack'?` for the closest of the choices, else the list of them."""
    ordered = sorted(set(choices))
    close = get_close_matches(name, ordered, 1, cutoff=0.75)
    if close:
        return FixSuggestion(f"did you mean {close[0]!r}?")
    if not ordered:
        return ""
    return f"there are: {', '.join(ordered)}"


def did_you_mean_key(name: str, topologies: Iterable[TopologyLevels]) -> str:
    """The fix for a label key that is no level of any topology."""
    keys: list[str] = []
    for topology in topologies:
        level = topology.by_domain(name)
        if level is not None:
            expected = "a label key is required here"
            return FixSuggestion(f"{expected}: write {level.key!r}", expected)
        keys += topology.keys
    return did_you_mean(name, keys)


class ExportError(ToposcopeError):
    """A topology that a format cannot express; `problems` are the reasons, one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: Sequence[str] = problems


class UnreadableDocumentError(ToposcopeError):
    """A document that does not fit the format; the message names the field and the fix."""


class NamedObject(msgspec.Struct, frozen=True):
    """The metadata of an object."""

    name: str


class DomainLevel(msgspec.Struct, frozen=True):
    """A level with domain and key, as ClusterTopology writes it."""

    domain: str
    key: str


class DomainLevels(msgspec.Struct, frozen=True):
    """A list of such levels."""

    levels: list[DomainLevel]

    def named(self, name: str) -> TopologyLevels:
        """The levels of the topology called `name`."""
        levels = [Level(level.domain, level.key) for level in self.levels]
        return TopologyLevels(name, tuple(levels))


class DomainTopology(msgspec.Struct, frozen=True):
    """An object that lists levels by domain and key in its spec."""

    metadata: NamedObject
    spec: DomainLevels


def domain_topology(document: Any, what: str) -> TopologyLevels:
    """The levels in the spec of an object, by domain and key. Raises UnreadableDocumentError."""
    topology = decoded(document, DomainTopology, what)
    return topology.spec.named(topology.metadata.name)


def decoded(document: Any, kind: type[_T], what: str) -> _T:
    """The document as `kind`.

    Raises UnreadableDocumentError with the path of the field that does not fit.
    """
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        problem = str(error).replace("`$.", "`")
        raise UnreadableDocumentError(f"this is not a {what}: {problem}") from None


def exportable(topology: TopologyLevels) -> TopologyLevels:
    """The same levels, if every scheduler would accept them. Raises ExportError."""
    problems = level_problems(topology.levels)
    if not topology.levels:
        problems = ["there are no levels to write; toposcope levels shows why"]
    if problems:
        raise ExportError(*problems)
    return topology


def topology_object(
    api_version: str, kind: str, name: str, levels: Iterable[dict[str, str]]
) -> dict[str, Any]:
    """A topology object of any of the schedulers, ready for `kubectl apply`."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"levels": list(levels)},
    }


def named_levels(
    keys: Iterable[str], domains: Iterable[str] = (), catalogue: Catalogue = BUILT_IN
) -> tuple[Level, ...]:
    """Levels from label keys alone.

    The catalogue's domain of a key, else one derived from its name; each domain once. `domains` run
    in parallel with `keys` where the document names some; an empty one counts as missing.
    """
    given_domains = list(domains)
    used_domains = set(given_domains)
    levels: list[Level] = []
    for position, key in enumerate(keys):
        domain = ""
        if position < len(given_domains):
            domain = given_domains[position]
        if not domain:
            usual = catalogue.domain_of.get(key) or _derived_from(key)
            domain = _unused(usual, used_domains)
            used_domains.add(domain)
        levels.append(Level(domain, key))
    return tuple(levels)


def _derived_from(key: str) -> str:
    """A legal domain: the key's name without the characters that a domain cannot contain."""
    _, _, name = key.rpartition("/")
    words = _NOT_IN_A_DOMAIN.sub("-", name.lower())
    domain = words.strip("-")[:_MAX_DOMAIN_CHARACTERS].strip("-")
    if not domain:
        return "level"
    level = Level(domain, "key")
    if level_problems([level]):
        return f"level-{domain}"
    return domain


def _unused(domain: str, used_domains: set[str]) -> str:
    number = 2
    unused = domain
    while unused in used_domains:
        unused = f"{domain}-{number}"
        number += 1
    return unused
