"""What exporting gives: a text, and what to know about it."""

from dataclasses import dataclass

from toposcope.cli.writing import some
from toposcope.integrations.slurm.hostlist import natural
from toposcope.snapshot.scope import Scope
from toposcope.topology.hierarchy import cover
from toposcope.topology.text import plural


@dataclass(frozen=True, slots=True)
class Exported:
    """A file's text and notes, one sentence each, for standard error."""

    name: str
    """Of what is written: the topology, or the node."""
    text: str
    notes: tuple[str, ...]


def left_out(found: Scope) -> tuple[str, ...]:
    """Which nodes lack a level that is written: schedulers leave them out."""
    nodes = f"{len(found.nodes)} {plural(len(found.nodes), 'node')}"
    return tuple(
        f"{each.missing} of {nodes} {plural(each.missing, 'lacks', 'lack')} level {each.level.domain} and "
        f"{plural(each.missing, 'falls', 'fall')} out of the topology: "
        f"{some(sorted(each.missing_nodes, key=natural))}"
        for each in cover(found.levels, found.table())
        if each.missing
    )
