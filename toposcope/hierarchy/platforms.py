"""The label keys that platforms are known to write, and those that are easily taken for one.

See platforms.toml.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).with_suffix(".toml")
_WRITTEN: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads(_FILE.read_text(encoding="utf-8"))

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    domain: tuple(keys) for domain, keys in _WRITTEN["keys"].items()
}
"""Domains, broadest first, to the keys that can carry each, preferred first."""

_NO_FABRIC: Final = "00000000-0000-0000-0000-000000000000"

PLACEHOLDERS: Final = frozenset(
    {"no-topology", "", _NO_FABRIC, *(f"{_NO_FABRIC}.{i}" for i in (0, 1, 32766))}
)
"""Values that say "unknown": taken as a domain they put strangers into one.

Topograph writes the first; an HGX board without multi-node NVLink may report an all-zero cluster
UUID with any of the clique ids seen in the field.
"""

REMOVED_BY_WRITER: Final[Mapping[str, str]] = _WRITTEN["removed_by_writer"]
"""Keys that disappear from a node while their writer does not run, to the writers: this says
nothing of the node."""

RETIRED: Final[Mapping[str, tuple[str, str]]] = {
    key: tuple(known) for key, known in _WRITTEN["retired"].items()
}
"""Keys that still say where a node is, to their successor and their writer, whose later versions
leave them behind."""

MISTAKEN: Final[Mapping[str, tuple[str, str]]] = {
    key: tuple(known) for key, known in _WRITTEN["mistaken"].items()
}
"""Keys that are not levels, to the key that was meant, and why."""

YOURS: Final = (
    "no platform writes it; if you do, give it the domain {!r} in the controller's --config FILE"
)
"""What to do about a label of one's own, by the domain that it may stand for."""

UNKNOWN: Final[Mapping[str, str]] = {
    key: YOURS.format(domain) for key, domain in _WRITTEN["yours"].items()
} | {"ib/torset": "its values are renumbered whenever the job that writes them runs"}
"""Keys that look like a level, without one that could have been meant, and what to do about
them."""

NAMES: Final[Mapping[str, str]] = _WRITTEN["names"]
"""Names that people give to labels of their own, to the domain that they may mean."""
