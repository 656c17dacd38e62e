"""Run:ai: its scheduler places workloads by its Topology."""

from typing import Final

from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.runai.scheduler import TOPOLOGIES


class _RunAi(Waiting):
    readers = ("Run:ai",)
    topology_kinds = (TOPOLOGIES,)
    topology_rules = (
        "runai/topology-exists",
        "runai/topology-name",
    )


WAITING: Final = _RunAi()
