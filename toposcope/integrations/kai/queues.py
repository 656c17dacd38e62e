"""KAI's queues: which one a workload is in, and what it and the queues above it have left.

Source: KAI 0.17.0 (plugins/proportion/capacity_policy, cache/cluster_info/queue.go,
plugins/defaultgrouper). A limit binds every gang, a quota those that are not preemptible. -1 is
unlimited; what a queue does not say is 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.document import Field, Finding, name_of
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.pods import amounts_of
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kai.api import NODE_POOL, PREFIX, QUEUE, QUEUES

DEFAULT: Final = "default-queue"
_PREEMPTIBLE: Final = {"train": True, "build-preemptible": True, "build": False, "inference": False}
"""By the name of a priority class of KAI's chart; what others are is not known."""
_UNITS: Final = {"gpu": 1, "cpu": 1, "memory": 10**6}
"""GPUs, thousandths of a core, megabytes."""


@dataclass(frozen=True, slots=True)
class Excess:
    """What a gang asks for beyond what a queue has left."""

    queue: str
    what: str
    """`limit` or `quota`."""
    resource: str
    most: int
    used: int
    wanted: int


def queue_of(places: Sequence[Field]) -> str:
    """The queue that these metadata name, a workload's own and then its templates'.

    By label, or by project.
    """
    project = _label(places, "project")
    of_project = "-".join(filter(None, (project, project and _label(places[1:], NODE_POOL))))
    return _label(places, QUEUE) or of_project or DEFAULT


def _label(places: Iterable[Field], key: str) -> str:
    """The first of them that has a label."""
    return next(filter(None, ((place / "labels" / key).text() for place in places)), "")


def is_preemptible(labels: Iterable[Field], priority: str | None, kind: str) -> bool:
    """Whether KAI may evict it, so that no quota binds it; True where that is not known."""
    if text := _label(labels, PREFIX + "preemptibility"):
        return text.lower() != "non-preemptible"
    return _PREEMPTIBLE.get(priority or ("inference" if kind == "Deployment" else "train"), True)


def missing(cluster: ClusterFacts, queue: str) -> Finding | None:
    """What KAI says of a queue that does not exist for it.

    None where it does, or where queues are not known.
    """
    queues = _queues(cluster)
    name, seen = queue, {""}
    while queues is not None and name not in seen:
        seen.add(name)
        if name not in queues:
            above = (
                f"its parent {name} does not exist, so KAI leaves it out" if name != queue else ""
            )
            fix = above or did_you_mean(queue, queues)
            return Finding("kai/queue", "error", "", f"Queue '{queue}' does not exist", fix)
        name = (queues[name] / "spec" / "parentQueue").text() or ""
    return None


def excess(
    cluster: ClusterFacts,
    queue: str,
    wanted: Mapping[str, int],
    own: Mapping[str, int],
    *,
    preemptible: bool,
) -> Excess | None:
    """The first limit or quota that `wanted` goes beyond.

    `own` is what the workload itself has in it already.
    """
    queues = _queues(cluster) or {}
    seen = set()
    while queue in queues and queue not in seen:
        seen.add(queue)
        spec, status = queues[queue] / "spec" / "resources", queues[queue] / "status"
        rules = [("limit", "allocated")] + [("quota", "allocatedNonPreemptible")] * (
            not preemptible
        )
        for what, said in rules:
            used = amounts_of(status / said)
            for name, unit in _UNITS.items():
                most, asked = _number(spec / name / what) * unit, _total(wanted, name)
                held = max(_total(used, name) - _total(own, name), 0)
                if asked and most >= 0 and held + asked > most:
                    resource = ALLOCATABLE_GPUS if name == "gpu" else name
                    return Excess(queue, what, resource, int(most), held, asked)
        queue = (queues[queue] / "spec" / "parentQueue").text() or ""
    return None


def _number(field: Field) -> float:
    return field.value if isinstance(field.value, int | float) else 0


def _total(amounts: Mapping[str, int], name: str) -> int:
    """KAI takes every resource that ends with `gpu` for GPUs."""
    return sum(
        amount
        for resource, amount in amounts.items()
        if resource == name or resource.endswith(f"/{name}")
    )


def _queues(cluster: ClusterFacts) -> dict[str, Field] | None:
    """By name; None: not known."""
    documents = cluster.objects.get(QUEUES.key)
    return None if documents is None else {name_of(queue): queue for queue in map(Field, documents)}
