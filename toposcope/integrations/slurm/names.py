"""The name of a domain in Slurm.

`named_levels` chooses one style of names for a whole level, from all nodes. After that a name
follows from the path alone: `name_of`. So a node's labels are enough to name its switch and its
block, and `toposcope export` and the agent of each node use the same names. Does not import
`Table`, because agents import this module.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from toposcope.api.levels import Level

MAX_NAME_CHARACTERS: Final = 64
"""Source: topology.conf(5), SwitchName."""
_HASH_DIGITS: Final = 10
ROOT: Final = "root"
"""The switch added above all others if there would be several at the top."""

Path = tuple[str, ...]
"""Domain values from the broadest level down, which identify a domain."""


class Style(Enum):
    """The parts of a name. Each style distinguishes more domains than the one before."""

    VALUE = "value"
    """The domain's value: no other domain has it."""
    PATH = "path"
    """The values of all levels down to the domain: the value alone is not unique."""
    HASH = "hash"
    """The path and a hash of it: the path as text is not unique."""


_NEXT: Final = {Style.VALUE: Style.PATH, Style.PATH: Style.HASH}


@dataclass(frozen=True, slots=True)
class NamedLevel:
    """A level, and how its domains are named."""

    domain: str
    key: str
    style: Style = Style.VALUE
    is_prefixed: bool = False
    """Whether names begin with the level's domain, to differ from the names of nodes."""

    def lone(self, value: str, node: str) -> bool:
        """Whether this is the domain of a node that is alone in it and gave it its name."""
        return not self.is_prefixed and value == node


@dataclass(frozen=True, slots=True)
class SlurmNames:
    """How the domains of one topology are named in Slurm's `-tree` and `-block` topologies."""

    tree: tuple[NamedLevel, ...]
    """The levels that are switches, broadest first. Without any, all nodes are below `ROOT`.
    """
    above: tuple[Level, ...] = ()
    """The levels above the blocks, broadest first."""
    block: NamedLevel | None = None
    """The level whose domains are blocks; None if there are no blocks."""


def name_of(path: Path, level: NamedLevel, *, lone: bool) -> str:
    """The name of one domain.

    With `lone`, see `NamedLevel.lone`, its node has the name and the domain another. Label values
    contain no character that is special in Slurm's lists. A name that is too long gets a hash.
    """
    name = ".".join(path)
    if level.style is Style.VALUE:
        name = path[-1]

    if level.is_prefixed or lone:
        name = f"{level.domain}-{name}"

    if level.style is Style.HASH or len(name) > MAX_NAME_CHARACTERS:
        return _with_hash(name, path)
    return name


def _with_hash(name: str, path: Path) -> str:
    """The name, shortened if needed, and a hash of the path."""
    text = "\n".join(path)
    digest = hashlib.sha256(text.encode()).hexdigest()
    suffix = digest[:_HASH_DIGITS]
    longest = MAX_NAME_CHARACTERS - len(suffix) - 1
    beginning = name[:longest]
    return f"{beginning}-{suffix}"


def is_lone(path: Path, only: str | None, level: NamedLevel) -> bool:
    """Whether this is the domain of a node that is alone in it and gave it its name."""
    if only is None:
        return False
    return level.lone(path[-1], only)


def names_of(domains: Mapping[Path, str | None], levels: Sequence[NamedLevel]) -> dict[Path, str]:
    """The name of each domain.

    `domains` says which node is alone in it, None if there are several.
    """
    names = {}
    for path, only in domains.items():
        level = levels[len(path) - 1]
        lone = is_lone(path, only, level)
        names[path] = name_of(path, level, lone=lone)
    return names


def named_levels(
    levels: Sequence[Level], domains: Mapping[Path, str | None], used_names: Collection[str]
) -> tuple[NamedLevel, ...]:
    """How to name the domains of each level so that all names are unique and unused.

    `used_names` are the nodes' names, `domains` is as in `names_of`.
    """
    named = [NamedLevel(level.domain, level.key) for level in levels]
    for path, only in domains.items():
        value = path[-1]
        if value in used_names and value != only:
            depth = len(path) - 1
            named[depth] = replace(named[depth], is_prefixed=True)

    steps = _steps(domains, named, used_names)
    while steps:
        for depth, better in steps.items():
            named[depth] = better
        steps = _steps(domains, named, used_names)

    return tuple(named)


def _steps(
    domains: Mapping[Path, str | None], named: Sequence[NamedLevel], used_names: Collection[str]
) -> dict[int, NamedLevel]:
    """The next style for each level in which two domains have the same name."""
    names = names_of(domains, named)
    uses = Counter(names.values())
    steps = {}
    for path, name in names.items():
        is_taken = name in used_names
        if uses[name] == 1 and not is_taken:
            continue

        depth = len(path) - 1
        level = named[depth]
        if is_taken and not level.is_prefixed:
            steps[depth] = replace(level, is_prefixed=True)
        elif level.style in _NEXT:
            style = _NEXT[level.style]
            steps[depth] = replace(level, style=style)

    return steps


def units(
    topology: str, names: SlurmNames, node: str, value_of: Callable[[str], str | None]
) -> str | None:
    """Slurm's `topology` of a node: its leaf switch and its block; None if it has neither.

    `value_of` returns the node's label value by key.
    """
    units_of_node = []
    tree = _path(names.tree, value_of)
    if tree is not None:
        leaf = _leaf(tree, names.tree, node)
        units_of_node.append(f"{topology}-tree:{leaf}")

    if names.block:
        path = _path((*names.above, names.block), value_of)
        if path is not None and not names.block.lone(path[-1], node):
            block = name_of(path, names.block, lone=False)
            units_of_node.append(f"{topology}-block:{block}")

    return ",".join(units_of_node) or None


def _path(
    levels: Sequence[Level | NamedLevel], value_of: Callable[[str], str | None]
) -> Path | None:
    """The node's path; None if it lacks one of the levels."""
    path = []
    for level in levels:
        value = value_of(level.key)
        if value is None:
            return None
        path.append(value)
    return tuple(path)


def _leaf(path: Path, levels: Sequence[NamedLevel], node: str) -> str:
    if not levels:
        return ROOT
    level = levels[-1]
    lone = level.lone(path[-1], node)
    return name_of(path, level, lone=lone)
