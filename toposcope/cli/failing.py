"""How a command gives up."""

from toposcope.errors import ToposcopeError
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope


class CommandError(ToposcopeError):
    """The question cannot be answered; the message says why and what to do."""


def nothing(snapshot: Snapshot, found: Scope) -> str:
    """Why there is nothing to show."""
    if not snapshot.nodes:
        return f"there is no node in {snapshot.source}"
    if found.topology:
        count = len(snapshot.nodes)
        return f"ClusterTopology {found.name!r} selects no node (of {count}); look at its spec.nodeSelector"
    return f"no node (of {len(snapshot.nodes)}) has a GPU that an agent, a device plugin or the GPU operator knows of"
