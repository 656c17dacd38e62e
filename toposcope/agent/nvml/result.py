"""The agent's view of a worker's answer: nothing in it is believed before its types are checked."""

from toposcope.agent.raw import RawNode
from toposcope.agent.typed import reader
from toposcope.errors import ToposcopeError
from toposcope.topology.text import parse


class MalformedResultError(ToposcopeError):
    """Bytes that no probe can have sent."""


def decode(content: bytes) -> RawNode:
    """What `toposcope.agent.nvml.worker.encode` wrote. Raises NotAResult."""
    try:
        raw: RawNode = reader(RawNode)(parse(content))
    except (ValueError, RecursionError) as error:
        raise MalformedResultError(str(error)) from error
    return raw
