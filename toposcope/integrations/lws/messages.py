"""Messages of the LeaderWorkerSet controller."""

from typing import Final

from toposcope.integrations.framework.messages import Meanings

MEANINGS: Final[Meanings] = {
    r"node does not have topology label: ?(\S*)": "the leader's node lacks the label that exclusive placement uses",
}
