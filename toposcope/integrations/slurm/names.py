"""Names of Slurm's switches and blocks, made of domain values: unique, and no longer than Slurm takes."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

LONGEST: Final = 64
"""Source: topology.conf(5), SwitchName."""
_HASH_DIGITS: Final = 10

Path = tuple[str, ...]
"""Domain values from the broadest level down: what tells two domains apart."""


def unique_names(paths: Iterable[Path], domains: Sequence[str], taken: Collection[str]) -> dict[Path, str]:
    """A name for each domain: its value; where that is used twice, its path; where a node has it, with the level.

    `domains` names the levels, `taken` holds the names that nodes have. Label values have no character that Slurm's
    lists give a meaning to; names that are too long, or still not unique, get a hash of the path.
    """
    all_paths = list(dict.fromkeys(paths))
    values = Counter(path[-1] for path in all_paths)
    wanted = {}
    for path in all_paths:
        value = path[-1]
        name = ".".join(path) if values[value] > 1 else value
        wanted[path] = f"{domains[len(path) - 1]}-{name}" if name in taken else name
    uses = Counter(wanted.values())
    return {
        path: name if uses[name] == 1 and len(name) <= LONGEST and name not in taken else _hashed(path, name)
        for path, name in wanted.items()
    }


def _hashed(path: Path, name: str) -> str:
    digest = hashlib.sha256("\n".join(path).encode()).hexdigest()[:_HASH_DIGITS]
    return f"{name[: LONGEST - _HASH_DIGITS - 1]}-{digest}"
