"""Run:ai's scheduler is a build of KAI: what they share. No other file of Run:ai names KAI.

It reads KAI's annotations itself.
"""

from typing import Final

from toposcope.integrations.framework.system import System
from toposcope.integrations.kai import api

TITLE: Final = "KAI"
TOPOLOGIES: Final = api.TOPOLOGIES
"""The resource that it reads the levels from: Run:ai creates one for each network topology."""
NODE_POOL: Final = api.NODE_POOL
TOPOLOGY: Final = api.TOPOLOGY
PLACEMENTS: Final = api.PLACEMENTS
PREFERRED: Final = api.PREFERRED
SEGMENT_SIZE: Final = api.SEGMENT_SIZE
SEGMENT_REQUIRED: Final = api.SEGMENT_REQUIRED
SEGMENT_PREFERRED: Final = api.SEGMENT_PREFERRED
NOT_HERE: Final = frozenset({"kai/scheduler-name", "kai/no-level"})
"""Rules that do not apply, because Run:ai sets the scheduler and adds missing levels."""


def system() -> System:
    """The system that reads the annotations."""
    from toposcope.integrations.kai import workload  # noqa: PLC0415 - only for workloads

    return workload.SYSTEM
