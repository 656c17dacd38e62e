"""The workload provider that keeps a deployment's pods together: Grove.

Only this file and `overrides` name it in Dynamo's folder.
"""

from typing import Final

from toposcope.integrations.grove import api, backend

TITLE: Final = "Grove"
NAME: Final = api.BINDINGS.option
"""Its name in Dynamo and in `spec.publish`."""
GROUP: Final = api.GROUP
SWITCH: Final = "nvidia.com/enable-grove"
"""Annotation that turns it off. Nothing else keeps pods together for Dynamo."""
QUEUE: Final = f"nvidia.com/{backend.SCHEDULER}-queue"
"""Annotation with the queue of its backend."""
CONSTRAINED: Final = api.CONSTRAINED
"""What is read of an object with a constraint."""
TOPOLOGIES: Final = (api.BINDINGS, api.OLDER_TOPOLOGIES)
"""The resource from which it reads the levels."""
POD_CLIQUE_SETS: Final = api.POD_CLIQUE_SETS
"""The kind that Dynamo creates from a deployment."""
LEVELS_UNAVAILABLE: Final = api.LEVELS_UNAVAILABLE
"""Condition of these."""
PATHWAY_RULE: Final = "dynamo/grove-pathway"
TRANSFER_RULE: Final = "dynamo/transfer-grove"
