"""DisaggregatedSet: slices of roles, each of which may have a domain of its own."""

from typing import Final

from toposcope.integrations.disaggregatedset.api import DISAGGREGATED_SETS, SLICE
from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="disaggregatedset",
    title="DisaggregatedSet",
    watched=(DISAGGREGATED_SETS,),
    exclusive_pod_labels=(SLICE,),
    pod_metadata=("disaggregatedset.x-k8s.io/",),
)
