"""The agent's view of a worker's answer: nothing in it is believed before its types are checked."""

import msgspec

from agent.raw import RawNode


class NotAResult(Exception):
    """Bytes that no probe can have sent."""


def decode(content: bytes) -> RawNode:
    """What `agent.worker.encode` wrote. Raises NotAResult."""
    try:
        return msgspec.json.decode(content, type=RawNode)
    except msgspec.MsgspecError as error:
        raise NotAResult(str(error)) from error
