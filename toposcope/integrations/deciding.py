"""What decides besides topologies: Kueue's objects, KAI's queues, kube-scheduler's PodGroups and groups of them."""

from typing import Final

from toposcope.integrations.kai import queues as kai
from toposcope.integrations.kubernetes import api as gangs
from toposcope.integrations.kueue import queues as kueue

READ: Final = (*kueue.READ, kai.KIND, gangs.POD_GROUPS, gangs.COMPOSITES)
