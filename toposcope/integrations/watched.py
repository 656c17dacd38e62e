"""What the controller watches: kinds whose objects ask for levels, and kinds that it publishes.

Apart from the registry of readers, so that a controller loads none of what only `toposcope check`
and `export` need.
"""

from typing import Final

from toposcope.integrations.dynamo import api as dynamo
from toposcope.integrations.framework.level_requests import WatchedKind
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.grove import api as grove
from toposcope.integrations.jobset import api as jobset
from toposcope.integrations.kai import api as kai
from toposcope.integrations.kubernetes import api as gangs
from toposcope.integrations.kubernetes import workload as kubernetes
from toposcope.integrations.kueue import api as kueue
from toposcope.integrations.lws import api as lws
from toposcope.integrations.volcano import api as volcano
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES

WATCHED: Final[tuple[WatchedKind, ...]] = (
    dynamo.DEPLOYMENTS,
    grove.POD_CLIQUE_SETS,
    kai.POD_GROUPS,
    kueue.WORKLOADS,
    lws.LEADER_WORKER_SETS,
    jobset.JOBSETS,
    gangs.POD_GROUPS,
    gangs.COMPOSITES,
    gangs.WORKLOADS,
    kubernetes.JOBS,
    kubernetes.DEPLOYMENTS,
    kubernetes.STATEFUL_SETS,
    volcano.JOBS,
    volcano.POD_GROUPS,
)

BOUND: Final = (dynamo.DEPLOYMENTS, grove.POD_CLIQUE_SETS)
"""Kinds whose constraints Grove translates by its binding: without the level they have none."""

PUBLISHED: Final[tuple[PublishedKind, ...]] = (
    grove.BINDINGS,
    grove.OLDER_TOPOLOGIES,
    kai.TOPOLOGIES,
    kueue.TOPOLOGIES,
    HYPER_NODES,
)
FOLLOWED: Final = (*PUBLISHED, kueue.FLAVORS)
"""What publishers read: what they publish, and what may hold it back."""
