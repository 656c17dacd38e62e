"""What decides besides topologies: Kueue's objects and KAI's queues."""

from typing import Final

from toposcope.integrations.kai import queues as kai
from toposcope.integrations.kueue import queues as kueue

READ: Final = (*kueue.READ, kai.KIND)
