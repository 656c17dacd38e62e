"""One change, which of many are tried, and what is wrong with those that survive."""

import subprocess
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from toposcope.errors import ToposcopeError

ROOT: Final = Path(__file__).parents[2]
COPY: Final = ROOT / "mutants"
"""The copy of the tree whose tests run on changed files, and the results; mutmut names it so."""


class UntestedError(ToposcopeError):
    """Mutants could not be tried, for instance because a test fails without any change."""


class Mutant(NamedTuple):
    """A file with one part of it changed."""

    path: str
    """The file, from the root of the repository."""
    name: str
    """Within the file; another one after something around it changed."""
    where: str
    was: str
    becomes: str

    def __str__(self) -> str:
        """How `tests/mutants.yaml` names it: as long as the changed lines stay the same."""
        return f"{self.path}: {self.where}: {self.was} => {self.becomes}"

    def is_in_sample(self, share: float, seed: int) -> bool:
        """Whether a share of all mutants has it: the same ones each time, and these too for a larger share."""
        return zlib.crc32(f"{seed} {self.path} {self.name}".encode()) < share * 2**32


def current(path: str) -> str:
    """The text of a file of the tree."""
    return (ROOT / path).read_text(encoding="utf-8")


def changed_since(revision: str) -> set[str]:
    """The files that differ from a revision. Raises subprocess.CalledProcessError where git does not have that."""
    return set(_git("diff", "--name-only", "--diff-filter=d", revision, "--").splitlines())


def new_since(revision: str, path: str, mutants: Callable[[str, str], Iterable[Mutant]]) -> list[Mutant]:
    """Those of a file's mutants whose lines are new or changed since a revision."""
    there = _git("ls-tree", "--name-only", revision, "--", path)
    before = Counter(map(str, mutants(path, _git("show", f"{revision}:{path}") if there else "")))
    now = Counter(map(str, mutants(path, current(path))))
    return [mutant for mutant in mutants(path, current(path)) if now[str(mutant)] > before[str(mutant)]]


def complaints(found: Iterable[Mutant], killed: Mapping[Mutant, bool], explained: Collection[str]) -> Iterator[str]:
    """What is wrong, in words: survivors that nothing explains, and explanations of what does not survive.

    `found` are all mutants of some files, `killed` says of those that were tried whether a test failed.
    """
    alive = {str(mutant) for mutant, dead in killed.items() if not dead}
    # One name stands for several where a line is repeated.
    not_dead = alive | {str(mutant) for mutant in found if mutant not in killed}
    paths = {mutant.path for mutant in found}
    yield from (f"survives: {name}" for name in sorted(alive.difference(explained)))
    for name in explained:
        if name.partition(": ")[0] in paths and name not in not_dead:
            yield f"explained, but a test fails or it is gone: {name}"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
