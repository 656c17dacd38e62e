"""The workload provider that keeps a deployment's pods together: Grove.

Of Dynamo's files only this one and `overrides` name it.
"""

from typing import Final

from toposcope.integrations.grove import api, backend

TITLE: Final = "Grove"
NAME: Final = api.BINDINGS.option
"""As Dynamo, and `spec.publish`, call it."""
GROUP: Final = api.GROUP
SWITCH: Final = "nvidia.com/enable-grove"
"""Annotation that turns it off: nobody else keeps pods together for Dynamo."""
QUEUE: Final = f"nvidia.com/{backend.SCHEDULER}-queue"
"""Annotation that names the queue of its backend."""
CONSTRAINED: Final = api.CONSTRAINED
"""What is read of an object with a constraint."""
TOPOLOGIES: Final = (api.BINDINGS, api.OLDER_TOPOLOGIES)
"""What it reads the levels from."""
POD_CLIQUE_SETS: Final = api.POD_CLIQUE_SETS
"""What Dynamo makes of a deployment."""
LEVELS_UNAVAILABLE: Final = api.LEVELS_UNAVAILABLE
"""Condition of these."""
PATHWAY_RULE: Final = "dynamo/grove-pathway"
TRANSFER_RULE: Final = "dynamo/transfer-grove"
