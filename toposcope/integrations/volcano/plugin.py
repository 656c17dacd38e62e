"""Volcano: its Jobs and PodGroups, and HyperNodes."""

from typing import Final

from toposcope.integrations.framework.plugin import GangMaker, GangMark, Plugin, RequiredField
from toposcope.integrations.volcano.api import GROUP_OF, JOBS, OF_NO_GROUP, POD_GROUPS, QUEUES
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES

PLUGIN: Final = Plugin(
    package=__package__,
    name="volcano",
    title="Volcano",
    watched=(JOBS, POD_GROUPS),
    published=(HYPER_NODES,),
    decisive=(QUEUES,),
    gang_marks=(
        GangMark(
            "PodGroup", (GROUP_OF,), GangMaker.SCHEDULER, is_annotation=True, single=OF_NO_GROUP
        ),
    ),
    pod_metadata=(GROUP_OF,),
    scheduler_names=("volcano",),
    # Source: Volcano 1.15 (PodGroup). The name of a tier is a level's domain or label key; tiers by
    # number are not read.
    required_fields=(RequiredField(POD_GROUPS, ("networkTopology", "highestTierName")),),
)
