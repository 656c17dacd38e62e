"""The scheduler that keeps OSMO's tasks together: KAI. No other file of OSMO names it."""

from typing import Final

from toposcope.integrations.kai import api

TITLE: Final = "KAI"
TYPE: Final = "kai"
"""Its name in a backend's `scheduler_settings`."""
TOPOLOGIES: Final = api.TOPOLOGIES
"""The resource that it reads the levels from: OSMO creates one for each pool."""
TOPOLOGY_RULE: Final = "osmo/kai-topology"
