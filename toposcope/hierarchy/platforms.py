"""The label keys that platforms are known to write, and keys that are easily taken for one.

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
"""Values that mean "unknown": as a domain they would join unrelated nodes.

Topograph writes the first; an HGX board without multi-node NVLink may report an all-zero cluster
UUID with any of the clique ids seen in the field.
"""

REMOVED_BY_WRITER: Final[Mapping[str, str]] = _WRITTEN["removed_by_writer"]
"""Keys that disappear from a node while their writer does not run, to the writers. Their absence
says nothing about the node."""

RETIRED: Final[Mapping[str, tuple[str, str]]] = {
    key: tuple(entry) for key, entry in _WRITTEN["retired"].items()
}
"""Retired keys, to their successor and their writer: nodes may still carry them, but later versions
of the writer do not update them."""

MISTAKEN: Final[Mapping[str, tuple[str, str]]] = {
    key: tuple(entry) for key, entry in _WRITTEN["mistaken"].items()
}
"""Keys that are not levels, to the intended key, and why."""

YOURS: Final = (
    "no known platform writes it; if you do, map it to domain {!r} "
    "in the controller's --config FILE"
)
"""What to do about a custom label, by the domain that it may carry."""

UNKNOWN: Final[Mapping[str, str]] = {
    key: YOURS.format(domain) for key, domain in _WRITTEN["yours"].items()
} | {"ib/torset": "the job that writes it renumbers its values on every run"}
"""Keys that look like a level but have no intended key, to what to do about them."""

NAMES: Final[Mapping[str, str]] = _WRITTEN["names"]
"""Names that people give to custom labels, to the domain that they may mean."""
