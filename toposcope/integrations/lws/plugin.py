"""LeaderWorkerSet: groups of pods, each of which may have a domain of its own."""

from typing import Final

from toposcope.integrations.framework.plugin import GangMaker, GangMark, Plugin
from toposcope.integrations.lws.api import (
    EXCLUSIVE,
    GROUP_INDEX,
    GROUP_KEY,
    LEADER_WORKER_SETS,
    SET_OF,
    SUBGROUP_KEY,
)

PLUGIN: Final = Plugin(
    package=__package__,
    name="lws",
    title="LeaderWorkerSet",
    watched=(LEADER_WORKER_SETS,),
    gang_marks=(GangMark("LeaderWorkerSet", (SET_OF, GROUP_INDEX), GangMaker.CONTROLLER),),
    exclusive_pod_labels=(GROUP_KEY, SUBGROUP_KEY),
    pod_metadata=("leaderworkerset.sigs.k8s.io/",),
    requiring_annotations=(EXCLUSIVE,),
)
