"""Levels of the hierarchy, and which of them all schedulers accept.

Each rule is the strictest of Grove's, KAI's, Kueue's (their CRDs) and Dynamo's (its webhook); a
level that keeps all of them can be published anywhere. Who has which rule is said here alone: what
is below the integrations cannot ask them.
"""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import HOSTNAME, is_own_input
from toposcope.text import enumerated

LISTING_NODE_LABELS: Final = ("KAI", "Kueue")
"""Schedulers whose Topology lists node labels: they take the fewest levels."""
JOINING_BY_DOTS: Final = LISTING_NODE_LABELS[0]
"""Who names a domain by the values of its levels, joined by dots."""
NESTING: Final = ("Grove", *LISTING_NODE_LABELS)
"""Schedulers to whom a domain is a value within the domain around it."""
LOSING_OWN_NAMES: Final = f"{LISTING_NODE_LABELS[-1]} 0.14 to 0.19.0"
"""Who leaves out each node whose hostname is the value of the broadest level (kueue#14009)."""
MAX_LEVELS: Final = 16
LEVELS_TAKEN: Final = f"{enumerated(LISTING_NODE_LABELS)} take {MAX_LEVELS}"
_MOST_CHARACTERS: Final = 63
_DOMAIN: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
    re.ASCII,
)
INSIDE_A_NODE: Final = (
    "numa",
    "numa-node",
    "socket",
    "cpu",
    "pcie",
    "pcie-switch",
    "pcie-root",
    "root-complex",
    "gpu",
    "mig",
    "nic",
)
"""Domains that no node label can carry. The CRD lists them too."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level: `domain` is the portable name (`rack`), `key` the node label that carries it."""

    domain: str
    key: str


def level_problems(levels: Sequence[Level]) -> list[str]:
    """What keeps `levels` (broadest first) from being published, one sentence each.

    Empty when nothing does.
    """
    problems: list[str] = []
    if len(levels) > MAX_LEVELS:
        problems.append(f"spec.levels has {len(levels)} entries; {LEVELS_TAKEN}")
    domains: set[str] = set()
    keys: set[str] = set()
    last = len(levels) - 1
    for place, level in enumerate(levels):
        is_last = place == last
        for problem in _problems(level, domains, keys, is_last=is_last):
            text = f"spec.levels[{place}].{problem}"
            problems.append(text)
        domains.add(level.domain)
        keys.add(level.key)
    return problems


def _problems(
    level: Level, domains: Container[str], keys: Container[str], *, is_last: bool
) -> Iterator[str]:
    """What is wrong with one level below others that have these domains and keys, by field."""
    problem = domain_problem(level.domain)
    if problem:
        yield f"domain: {problem}"
    problem = key_problem(level.key)
    if problem:
        yield f"key: {problem}"
    if level.domain in domains:
        yield f"domain: {level.domain!r} is listed twice; each domain names one level"
    if level.key in keys:
        yield f"key: {level.key!r} is listed twice; each level needs a label of its own"
    if level.key == HOSTNAME and not is_last:
        yield f"key: {HOSTNAME} must be the last level; nothing is narrower than a host"


def domain_problem(domain: str) -> str:
    """Why this cannot be the name of a level; empty when it can."""
    if domain in INSIDE_A_NODE:
        return (
            f"{domain!r} lies inside a node, and a node label cannot tell parts of a node apart; "
            "remove the level and end with 'host'"
        )
    if len(domain) <= _MOST_CHARACTERS and _DOMAIN.fullmatch(domain):
        return ""
    return (
        f"{domain!r} must be 1-63 lower-case letters, digits or '-', "
        "begin with a letter and not end with '-'"
    )


def key_problem(key: str) -> str:
    """Why this node label cannot carry a level; empty when it can."""
    if len(key) > _MOST_CHARACTERS:
        return (
            f"{key!r} has {len(key)} characters with its prefix; "
            f"{NESTING[0]} takes {_MOST_CHARACTERS}"
        )
    if is_own_input(key):
        return (
            f"{key!r} is derived from the levels, so it cannot be one; "
            "use the label that carries the level"
        )
    if not _KEY.fullmatch(key):
        return f"{key!r} is not a label key with a lower-case DNS prefix"
    return ""
