"""Levels of the hierarchy, and which of them Grove, KAI, Kueue and Dynamo all accept.

Each rule is the strictest of the four; a level that keeps all of them can be published anywhere.
Sources: Grove's and KAI's CRDs, Kueue's CRD, Dynamo's webhook.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from topology.keys import HOSTNAME

MAX_LEVELS: Final = 16
_MAX_LENGTH: Final = 63
_DOMAIN: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
    re.ASCII,
)
_INSIDE_A_NODE: Final = frozenset({"numa", "numa-node", "socket", "pcie-switch", "gpu"})


@dataclass(frozen=True, slots=True)
class Level:
    """One rung: `domain` is the portable name (`rack`), `key` the node label that carries it."""

    domain: str
    key: str


def level_problems(levels: Sequence[Level]) -> list[str]:
    """What keeps `levels` (broadest first) from being published, one sentence each; empty when nothing does."""
    problems = (
        [] if len(levels) <= MAX_LEVELS else [f"spec.levels has {len(levels)} entries; KAI and Kueue take {MAX_LEVELS}"]
    )
    domains: set[str] = set()
    keys: set[str] = set()
    for i, level in enumerate(levels):
        at = f"spec.levels[{i}]"
        problems += _domain_problems(f"{at}.domain", level.domain) + _key_problems(f"{at}.key", level.key)
        if level.domain in domains:
            problems.append(f"{at}.domain: {level.domain!r} stands there twice; each domain names one level")
        if level.key in keys:
            problems.append(f"{at}.key: {level.key!r} stands there twice; each level needs a label of its own")
        if level.key == HOSTNAME and i + 1 < len(levels):
            problems.append(f"{at}.key: {HOSTNAME} must be the last level; nothing is narrower than a host")
        domains.add(level.domain)
        keys.add(level.key)
    return problems


def _domain_problems(at: str, domain: str) -> list[str]:
    if domain in _INSIDE_A_NODE:
        return [
            f"{at}: {domain!r} lies inside a node, and a node label cannot tell parts of a node apart; remove the level"
        ]
    if len(domain) <= _MAX_LENGTH and _DOMAIN.fullmatch(domain):
        return []
    return [
        f"{at}: {domain!r} must be 1-63 lower-case letters, digits or '-', begin with a letter and not end with '-'"
    ]


def _key_problems(at: str, key: str) -> list[str]:
    if len(key) > _MAX_LENGTH:
        return [f"{at}: {key!r} has {len(key)} characters with its prefix; Grove takes 63"]
    return [] if _KEY.fullmatch(key) else [f"{at}: {key!r} is no label key with a lower-case DNS prefix"]
