"""The catalogue: which node label carries which level. Admins can extend it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from toposcope.api.label_keys import PREFIX
from toposcope.api.levels import Level
from toposcope.hierarchy.platforms import (
    KEYS,
    MISTAKEN,
    NAMES,
    PLACEHOLDERS,
    RETIRED,
    UNKNOWN,
    YOURS,
)

_SEPARATORS: Final = re.compile(r"[-._]")
_BEGINNINGS: Final = ("topology-", "network-")
_ENDS: Final = ("-id", "-name")
"""What a label's name may have around the name of a domain."""
NEAR_MISS: Final = "NearMiss"
RETIRED_KEY: Final = "RetiredKey"
NOT_ACCEPTED: Final = "NotAccepted"


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice about a label key that is not a level, or should no longer be one.

    `reason` is `NearMiss`, `RetiredKey` or `NotAccepted`; `instead` is the right key, if there is
    one; `why` continues "the label ...: ".
    """

    reason: str
    instead: str
    why: str


@dataclass(frozen=True)
class Catalogue:
    """Keys of the levels, and advice about other keys."""

    keys: Mapping[str, tuple[str, ...]]
    """Domains, broadest first, to the keys that can carry each, preferred first."""
    placeholders: frozenset[str]
    """Values that say "unknown"."""
    advice: Mapping[str, Advice]
    """Advice by label key."""
    chosen: frozenset[str] = field(default=frozenset())
    """Keys that an admin prefers: they replace a key that carried the level before."""

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """Every domain that can be inferred, broadest first."""
        return tuple(self.keys)

    @cached_property
    def domain_of(self) -> Mapping[str, str]:
        """Each level key's domain."""
        domain_of = {}
        for domain, keys in self.keys.items():
            for key in keys:
                domain_of[key] = domain
        return domain_of

    @cached_property
    def rank(self) -> Mapping[str, int]:
        """Each level key's position: broadest domain first, preferred keys first."""
        rank = {}
        for place, key in enumerate(self.domain_of):
            rank[key] = place
        return rank

    @cached_property
    def level_keys(self) -> frozenset[str]:
        """Every key that can be a level."""
        return frozenset(self.domain_of)

    @cached_property
    def suspects(self) -> frozenset[str]:
        """Keys to report when a node carries them: with advice, or misspelt level keys."""
        suspects: set[str] = set()
        for key in self.domain_of:
            suspects.update(_spellings(key))
        suspects -= self.level_keys
        suspects.update(self.advice)
        return frozenset(suspects)

    @cached_property
    def tracked(self) -> frozenset[str]:
        """The keys of the node labels to keep."""
        return self.level_keys | self.suspects

    def infer(self, carried: Mapping[str, int]) -> tuple[Level, ...]:
        """The levels of nodes, broadest first, by how many nodes carry each key.

        A domain's level has the key that most nodes carry, or the preferred one among equals.
        """
        levels = []
        for domain, keys in self.keys.items():
            candidates = [key for key in keys if key in carried]
            if not candidates:
                continue
            best = max(candidates, key=carried.__getitem__)
            level = Level(domain, best)
            levels.append(level)
        return tuple(levels)

    def advise(self, key: str) -> Advice | None:
        """Advice about a key, if any."""
        advice = self.advice.get(key)
        if advice is not None or key in self.level_keys:
            return advice
        right = self._folded.get(_fold(key))
        if right is None:
            return None
        return Advice(NEAR_MISS, right, "no known platform writes it")

    def advise_by_name(self, key: str) -> Advice | None:
        """Advice about a custom label whose name is that of a domain; None if it is not."""
        domain = self._domain_named(key)
        if domain is None or key in self.level_keys:
            return None
        return Advice(NEAR_MISS, "", YOURS.format(domain))

    def _domain_named(self, key: str) -> str | None:
        """The domain that a custom label may carry, by its name; None if it names none."""
        if key.startswith(PREFIX):
            return None
        name = _fold(key.rpartition("/")[2])
        for beginning in _BEGINNINGS:
            name = name.removeprefix(beginning)
        for end in _ENDS:
            name = name.removesuffix(end)
        domain = NAMES.get(name)
        return domain if domain in self.keys else None

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        folded: dict[str, str] = {}
        for key in self.domain_of:
            folded.setdefault(_fold(key), key)
        return folded


def _fold(key: str) -> str:
    """The key without case, and with one kind of separator."""
    return _SEPARATORS.sub("-", key.lower())


def _spellings(key: str) -> Iterator[str]:
    """The key with one separator throughout its name, for each separator that a label may have."""
    prefix, slash, name = key.rpartition("/")
    for separator in "-._":
        spelling = _SEPARATORS.sub(separator, name)
        yield f"{prefix}{slash}{spelling}"


def _built_in_advice() -> dict[str, Advice]:
    advice = {}
    for key, retired in RETIRED.items():
        instead, writer = retired
        advice[key] = Advice(
            reason=RETIRED_KEY,
            instead=instead,
            why=f"{writer} wrote it, and later versions leave it behind",
        )
    for key, mistaken in MISTAKEN.items():
        instead, why = mistaken
        advice[key] = Advice(NEAR_MISS, instead, why)
    for key, why in UNKNOWN.items():
        advice[key] = Advice(NEAR_MISS, "", why)
    return advice


BUILT_IN: Final = Catalogue(KEYS, PLACEHOLDERS, _built_in_advice())
"""The catalogue without any configuration."""
