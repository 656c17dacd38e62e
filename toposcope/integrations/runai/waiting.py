"""Run:ai: its workloads are scheduled by KAI's Topology."""

from typing import Final

from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.kai.api import TOPOLOGIES


class _RunAi(Waiting):
    readers = ("Run:ai",)
    topology_kinds = (TOPOLOGIES,)
    topology_rules = (
        "runai/topology-exists",
        "runai/topology-name",
    )


WAITING: Final = _RunAi()
