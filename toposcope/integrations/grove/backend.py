"""Grove's scheduler backend that keeps pods together: KAI. No other file of Grove names it."""

from typing import Final

from toposcope.api.label_keys import PREFIX
from toposcope.integrations.kai import api, pod_shares

TITLE: Final = "KAI"
SCHEDULER: Final = api.KAI_SCHEDULER
"""The `schedulerName` of its pods, and its name in bindings."""
QUEUE: Final = api.QUEUE
"""Label of a PodCliqueSet or of a clique: the queue of its pods."""
PREEMPTIBLE: Final = api.PREEMPTIBLE
"""Whether pods may be evicted, by their priority class."""
TOPOLOGIES: Final = api.TOPOLOGIES
"""The resource that the scheduler reads the levels from: Grove creates one for each binding that
names none."""
NAMED: Final = f"{PREFIX}names-kai-topology"
"""Annotation of a binding: Toposcope wrote its entry for the backend, which names the Topology in
the value.
"""
TOPOLOGY_RULE: Final = "grove/kai-topology"
check_shares = pod_shares.check_shares
with_share_at = pod_shares.with_share_at
"""The fractions of GPUs that pods request, by annotations of a clique."""
