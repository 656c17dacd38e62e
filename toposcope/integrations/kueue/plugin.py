"""Kueue: Workloads that wait for quota, their queues, and its Topology."""

from typing import Final

from toposcope.integrations.framework.plugin import (
    GangMaker,
    GangMark,
    OperatorConfiguration,
    Plugin,
)
from toposcope.integrations.kueue.api import (
    CONFIGURATION,
    FLAVORS,
    GROUP_NAME,
    POD_GROUP,
    POD_GROUP_TOTAL,
    POD_SET_OF,
    PREFIX,
    READ,
    REQUIRED,
    TOPOLOGIES,
    WORKLOAD_OF,
    WORKLOADS,
    annotated,
)

PLUGIN: Final = Plugin(
    package=__package__,
    name="kueue",
    title="Kueue",
    watched=(WORKLOADS,),
    read_annotations=annotated,
    published=(TOPOLOGIES,),
    followed=(FLAVORS,),
    leaves_out_incomplete_nodes=True,
    admits=True,
    decisive=READ,
    names_topology=False,  # the flavor does
    gang_marks=(
        GangMark("Workload", (WORKLOAD_OF,), GangMaker.QUEUE, is_annotation=True),
        GangMark("Pod", (POD_GROUP,), GangMaker.QUEUE),
    ),
    pod_metadata=("kueue.x-k8s.io/",),
    placing_annotations=(POD_GROUP_TOTAL,),
    requiring_annotations=(REQUIRED,),
    requiring_parts=(GROUP_NAME, POD_SET_OF),
    configuration=OperatorConfiguration(
        kind=CONFIGURATION[1],
        label_selector="app.kubernetes.io/name=kueue",
        group=CONFIGURATION[0],
    ),
    scheduling_gates=(PREFIX + "admission", PREFIX + "topology", PREFIX + "elastic-job"),
)
