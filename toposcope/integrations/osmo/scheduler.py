"""The scheduler that keeps OSMO's tasks together: KAI. Only this file of OSMO's names it."""

from typing import Final

from toposcope.integrations.kai import api

TITLE: Final = "KAI"
TYPE: Final = "kai"
"""What a backend's `scheduler_settings` call it."""
TOPOLOGIES: Final = api.TOPOLOGIES
"""What it reads the levels from: OSMO makes one of each pool."""
TOPOLOGY_RULE: Final = "osmo/kai-topology"
