"""Grove's scheduler backend that keeps pods together: KAI. Only this file of Grove's names it."""

from typing import Final

from toposcope.api.label_keys import PREFIX
from toposcope.integrations.kai import api, pod_shares

TITLE: Final = "KAI"
SCHEDULER: Final = api.KAI_SCHEDULER
"""What pods write into `schedulerName`, and bindings name."""
QUEUE: Final = api.QUEUE
"""Label of a PodCliqueSet, or of a clique: the queue of its pods."""
PREEMPTIBLE: Final = api.PREEMPTIBLE
"""Whether pods may be evicted, by their priority class."""
TOPOLOGIES: Final = api.TOPOLOGIES
"""What the scheduler reads the levels from: Grove makes one of each binding that names none."""
NAMED: Final = f"{PREFIX}names-kai-topology"
"""Annotation of a binding: Toposcope wrote its entry for the backend, which names the Topology in
the value.
"""
TOPOLOGY_RULE: Final = "grove/kai-topology"
check_shares = pod_shares.check_shares
with_share_at = pod_shares.with_share_at
"""What pods ask of GPUs that they share, by annotations of a clique."""
