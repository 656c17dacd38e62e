"""Kubernetes: its own workloads, and kube-scheduler's own gangs."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.integrations.framework.pod_kinds import POD_KINDS
from toposcope.integrations.kubernetes.api import (
    COMPOSITES,
    DEPLOYMENTS,
    JOBS,
    POD_GROUPS,
    STATEFUL_SETS,
    WORKLOADS,
)

PLUGIN: Final = Plugin(
    package=__package__,
    name="kubernetes",
    title="Kubernetes",
    watched=(POD_GROUPS, COMPOSITES, WORKLOADS, JOBS, DEPLOYMENTS, STATEFUL_SETS),
    decisive=(POD_GROUPS, COMPOSITES, *POD_KINDS),
    scheduler_names=(DEFAULT_SCHEDULER,),
)
