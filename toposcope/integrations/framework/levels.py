"""Levels under a name: all that Grove, KAI, Kueue, Run:ai and OSMO are told, and what is wrong when they cannot be.

Documents of other systems, decoded to the fields that a format is made of; anything else in them is passed over.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec

from toposcope.errors import ToposcopeError
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.levels import Level, level_problems

_T = TypeVar("_T")


class Meta(msgspec.Struct, frozen=True):
    """What is read of an object's metadata."""

    name: str


def decoded(document: Any, kind: type[_T], what: str) -> _T:
    """The document as `kind`. Raises Unreadable with the path of the field that does not fit."""
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UnreadableDocumentError(f"this is no {what}: {str(error).replace('`$.', '`')}") from None


_UNFIT: Final = re.compile(r"[^a-z0-9]+")
_LONGEST: Final = 50


@dataclass(frozen=True, slots=True)
class TopologyLevels:
    """The levels of one topology, broadest first, as a workload can name them."""

    name: str
    levels: tuple[Level, ...]
    source: str = "ClusterTopology"
    """The kind of the object that says so."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Other names of label keys, as KAI's Topology may have them: alias and key."""

    def by_key(self, term: str) -> Level | None:
        """The level that a label key names, or an alias of one; a domain (`rack`) does not."""
        key = dict(self.aliases).get(term, term)
        return next((level for level in self.levels if level.key == key), None)

    def level(self, term: str) -> Level | None:
        """The level that a domain (`rack`) or a label key names."""
        return next((level for level in self.levels if term in (level.domain, level.key)), None)

    def rank(self, level: Level) -> int:
        """0 for the broadest level, one more for each narrower one."""
        return self.levels.index(level)

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the levels."""
        return tuple(level.domain for level in self.levels)

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys of the levels."""
        return tuple(level.key for level in self.levels)


def near(name: str, among: Iterable[str]) -> str:
    """`did you mean 'rack'?` for the closest of `among`, else the list of them; empty when there are none."""
    choices = sorted(set(among))
    close = get_close_matches(name, choices, 1, cutoff=0.75)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(choices)}" if choices else ""


def key_fix(term: str, ladders: Iterable[TopologyLevels]) -> str:
    """What to write where a label key was expected and `term` is none of those that the topologies have."""
    levels = [level for ladder in ladders for level in ladder.levels]
    for level in levels:
        if level.domain == term:
            return f"label keys are taken here: write {level.key!r}"
    return near(term, (level.key for level in levels))


class ExportError(ToposcopeError):
    """What a format cannot hold; `problems` are all reasons, one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: Sequence[str] = problems


class UnreadableDocumentError(ToposcopeError):
    """A document that is none of the format's; the message names the field and the fix."""


def checked(hierarchy: TopologyLevels) -> TopologyLevels:
    """The hierarchy, if every scheduler would take it. Raises Unwritable."""
    problems = level_problems(hierarchy.levels)
    if not hierarchy.levels:
        problems = ["there is no level that could be written; toposcope levels shows why"]
    if problems:
        raise ExportError(*problems)
    return hierarchy


def named_levels(
    keys: Iterable[str], domains: Iterable[str] = (), catalogue: Catalogue = BUILT_IN
) -> tuple[Level, ...]:
    """Levels from label keys alone: the catalogue's domain of a key, else one made of its name; each domain once.

    `domains` run in parallel with `keys` where the document gives some; an empty one is none.
    """
    found: list[Level] = []
    given = list(domains)
    taken = {domain for domain in given if domain}
    for place, key in enumerate(keys):
        domain = given[place] if place < len(given) else ""
        if not domain:
            domain = _free(catalogue.domain_of.get(key) or _made_of(key), taken)
            taken.add(domain)
        found.append(Level(domain, key))
    return tuple(found)


def _made_of(key: str) -> str:
    """A legal domain that reminds of the key: its name without what a domain cannot hold."""
    text = _UNFIT.sub("-", key.rpartition("/")[2].lower()).strip("-")[:_LONGEST].strip("-")
    legal = text and not level_problems([Level(text, "key")])
    return text if legal else f"level-{text}".rstrip("-")


def _free(domain: str, taken: set[str]) -> str:
    number = 2
    free = domain
    while free in taken:
        free = f"{domain}-{number}"
        number += 1
    return free
