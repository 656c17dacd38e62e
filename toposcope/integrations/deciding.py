"""What decides besides topologies: Kueue's objects, KAI's queues, and kube-scheduler's PodGroups."""

from typing import Final

from toposcope.integrations.kai import queues as kai
from toposcope.integrations.kubernetes import gangs
from toposcope.integrations.kueue import queues as kueue

READ: Final = (*kueue.READ, kai.KIND, gangs.POD_GROUP)
