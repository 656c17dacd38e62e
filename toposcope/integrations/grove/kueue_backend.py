"""What Grove requires of a PodCliqueSet whose pods Kueue admits: `schedulerName: kueue`.

Grove creates a Workload for each PodGang, with a pod set for each clique. Source: Grove's GREP-704
(operator/internal/scheduler/kueue), read in 2026-11; in no release yet.
"""

from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.grove.api import clique_names, clique_replicas
from toposcope.integrations.kueue import api

TITLE: Final = "Kueue"
SCHEDULER: Final = "kueue"
TOPOLOGIES: Final = api.TOPOLOGIES
"""The resource from which its flavors get the levels."""
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_RULE: Final = "grove/kueue"


def check_set(root: Field) -> None:
    """Note what keeps Grove from creating Workloads for it."""
    queue = root / "metadata" / "labels" / _QUEUE
    if not queue.text():
        text = f"the set must have the label {_QUEUE}: Grove creates no Workload without a queue"
        queue.error(_RULE, text, "name a LocalQueue")

    template = root / "spec" / "template"
    grouped: set[str] = set()
    for group in (template / "podCliqueScalingGroups").items():
        grouped.update(clique_names(group))
    partial = 0
    for clique in (template / "cliques").items():
        least = clique / "spec" / "minAvailable"
        replicas = clique_replicas(clique / "spec")
        if least.number(replicas) >= replicas:
            continue
        if (clique / "name").text() in grouped:
            text = "cliques of a scaling group must start with all of their pods"
            least.error(_RULE, text, f"write {replicas}")
            continue
        partial += 1
        if partial > 1:
            text = "only one clique outside of scaling groups may start with fewer than all pods"
            least.error(_RULE, text, f"write {replicas}")
