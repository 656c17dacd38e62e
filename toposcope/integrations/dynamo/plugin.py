"""NVIDIA Dynamo: deployments of inference graphs."""

from typing import Final

from toposcope.integrations.dynamo.api import DEPLOYMENTS
from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="dynamo",
    title="Dynamo",
    watched=(DEPLOYMENTS,),
    changes_checked=(DEPLOYMENTS,),
    pod_metadata=("nvidia.com/",),
)
