"""Grove: PodCliqueSets, whose pods its backend places, and bindings that name the levels."""

from typing import Final

from toposcope.integrations.framework.plugin import (
    GangMaker,
    GangMark,
    OperatorConfiguration,
    Plugin,
    RequiredField,
)
from toposcope.integrations.grove import backend
from toposcope.integrations.grove.api import (
    BINDINGS,
    GANG,
    GANG_OF,
    OLDER_TOPOLOGIES,
    POD_CLIQUE_SETS,
)

PLUGIN: Final = Plugin(
    package=__package__,
    name="grove",
    title="Grove",
    scheduler=backend.TITLE,
    watched=(POD_CLIQUE_SETS,),
    changes_checked=(POD_CLIQUE_SETS,),
    published=(BINDINGS, OLDER_TOPOLOGIES),
    gang_marks=(GangMark("PodGang", (GANG_OF,), GangMaker.SCHEDULER),),
    pod_metadata=("grove.io/",),
    configuration=OperatorConfiguration(
        kind="OperatorConfiguration",
        label_selector="app.kubernetes.io/name=grove-operator",
    ),
    # Source: Grove v0.1.0-alpha.12 (scheduler/api/core/v1alpha1, PodGang)
    required_fields=(RequiredField(GANG, ("topologyConstraint", "packConstraint", "required")),),
)
