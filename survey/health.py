"""What is wrong with a node, in words that filters and tables share."""

from enum import StrEnum

from survey.snapshot import NodeView
from topology.hardware import State


class Mark(StrEnum):
    """One thing about a node that an admin would want to know before placing work on it."""

    NOT_READY = "not-ready"
    CORDONED = "cordoned"
    DEGRADED = "degraded"
    """Its agent finds fewer GPUs, links or worse paths than there should be."""
    UNKNOWN = "unknown"
    """Its agent gets no answer from the hardware."""
    NO_AGENT = "no-agent"
    """It has GPUs and no agent has labelled it."""


FAULTS = frozenset({Mark.NOT_READY, Mark.DEGRADED, Mark.UNKNOWN})
"""Marks that say that something is broken; the others may be meant."""


def marks(node: NodeView) -> tuple[Mark, ...]:
    """Everything that marks a node, worst first; empty for most."""
    state = node.state
    if node.ready and node.schedulable and state is State.OK:
        return ()
    found = []
    if not node.ready:
        found.append(Mark.NOT_READY)
    if state is State.DEGRADED:
        found.append(Mark.DEGRADED)
    elif state is State.UNKNOWN:
        found.append(Mark.UNKNOWN)
    elif state is None and node.has_gpus:
        found.append(Mark.NO_AGENT)
    if not node.schedulable:
        found.append(Mark.CORDONED)
    return tuple(found)
