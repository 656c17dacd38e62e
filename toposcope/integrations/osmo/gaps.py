"""Where the PodGroup that OSMO makes says less than its user asked, or something else.

Source: OSMO's PodGroupTopologyBuilder (2026-08). It takes the first requirement of a group for all, keeps only the last
of a chain of single groups, joins the names of a path with `-`, and has no place for tasks without requirements.
"""

from collections.abc import Iterator, Sequence

from toposcope.integrations.framework.document import Part
from toposcope.integrations.osmo.tree import Branch


def check_gaps(tasks: Part, name: str, root: Branch) -> None:
    """Note every gap; `tasks` is where the task group `name` stands."""
    for branch in root.everything():
        if len({each.required for each in branch.asked}) > 1:
            first = branch.asked[0]
            first.part.warn(
                "osmo/mixed-requirement",
                f"group {first.group!r} is both required and preferred; OSMO goes by the first of its tasks: "
                f"{'required' if first.required else 'preferred'}",
                "write the same requirementType in every resource of the group",
            )
    for branch, instead in lost(root):
        kept = instead.asked[0]
        next(each for each in branch.asked if each.required).part.warn(
            "osmo/required-lost",
            f"required {branch.asked[0].key!r} is lost for tasks of {name!r}: "
            f"OSMO writes only preferred {kept.key!r} into the PodGroup",
            f"make {kept.key!r} required too, or leave it out",
        )
    for one, other in collisions(root):
        other.asked[0].part.error(
            "osmo/group-collision",
            f"groups {'/'.join(one.path)} and {'/'.join(other.path)} are both called {'-'.join(one.path)!r} by OSMO, "
            "which fails with IndexError or takes them for one",
            "choose group names without '-'",
        )
    if root.tasks and root.below:
        names = ", ".join(task.name for task in root.tasks)
        where = "are put under the constraint of the others" if root.only else "may be placed anywhere"
        tasks.warn(
            "osmo/without-requirements",
            f"tasks without topology {where}: {names}",
            "give every task of the group a topology, or put these into a group of their own",
        )


def lost(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Required groups of which nothing is left in the PodGroup, each with the preferred one that is kept instead.

    From the root down a chain of single groups becomes one constraint on the whole PodGroup: its last one. A chain that
    begins at a branching is cut to its last group in the same way; below a sub-group nothing is lost. Where the last
    one is required it is narrower, and the others follow from it.
    """
    whole = _chain(root)
    yield from _lost_of(whole[1:])
    for start in whole[-1].below.values():
        yield from _lost_of(_chain(start))


def _chain(start: Branch) -> list[Branch]:
    found = [start]
    while below := found[-1].only:
        found.append(below)
    return found


def _lost_of(chain: Sequence[Branch]) -> Iterator[tuple[Branch, Branch]]:
    if chain and not chain[-1].asked[0].required:
        for branch in chain[:-1]:
            if branch.required:
                yield branch, chain[-1]


def collisions(root: Branch) -> Iterator[tuple[Branch, Branch]]:
    """Different groups that get one name."""
    named: dict[str, Branch] = {}
    for branch in root.everything():
        other = named.setdefault("-".join(branch.path), branch)
        if other is not branch:
            yield other, branch
