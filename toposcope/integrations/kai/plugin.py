"""KAI Scheduler: PodGroups, the annotations that make them, and its Topology."""

from typing import Final

from toposcope.integrations.framework.plugin import GangMaker, GangMark, Plugin, RequiredField
from toposcope.integrations.kai.api import (
    GPU_FRACTION,
    GPU_GROUP,
    GPU_MEMORY,
    GROUP_OF,
    KAI_SCHEDULER,
    POD_GROUPS,
    QUEUES,
    REQUIRED,
    TOPOLOGIES,
    annotated,
)

PLUGIN: Final = Plugin(
    package=__package__,
    name="kai",
    title="KAI",
    watched=(POD_GROUPS,),
    read_annotations=annotated,
    published=(TOPOLOGIES,),
    leaves_out_incomplete_nodes=True,
    decisive=(QUEUES,),
    gang_marks=(GangMark("PodGroup", (GROUP_OF,), GangMaker.SCHEDULER, is_annotation=True),),
    pod_metadata=("kai.scheduler/", GROUP_OF, GPU_FRACTION, GPU_MEMORY, GPU_GROUP),
    placing_annotations=(GROUP_OF,),
    # Source: KAI 0.17.0 (PodGroup, which it makes of OSMO's, Run:ai's and Dynamo's workloads too)
    required_fields=(
        RequiredField(
            POD_GROUPS,
            ("topologyConstraint", "requiredTopologyLevel"),
            needs="topology",
        ),
    ),
    requiring_annotations=(REQUIRED,),
    scheduler_names=(KAI_SCHEDULER,),
)
