"""Volcano's queues: whether one accepts a Job, and how much of its capability is left.

Rules and messages: Volcano 1.15 (webhook of jobs; plugins proportion and capacity). A capability
limits what all pods of a queue and of the queues below it hold. Shares by weight, `deserved` and
`guarantee` depend on what other queues want at the moment, and are not read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.amounts import amount
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.containers import amounts_of
from toposcope.integrations.framework.document import Field, UnreadField, name_of
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.volcano.api import QUEUES

DEFAULT: Final = "default"
_ROOT: Final = "root"
_OPEN: Final = "Open"
_RULE: Final = "volcano/queue"
_MOST_QUEUES: Final = 64
"""The deepest nesting of queues; a longer path is a cycle."""

_Queues = Mapping[str, Field]


def _queues(cluster: ClusterFacts) -> _Queues | None:
    """The queues by name; None if unknown."""
    documents = cluster.objects.get(QUEUES.key)
    if documents is None:
        return None
    queues = {}
    for document in documents:
        root = Field(document)
        queues[name_of(root)] = root
    return queues


def check_queue(field: Field, name: str, cluster: ClusterFacts) -> None:
    """Note why the webhook rejects a Job in this queue."""
    queues = _queues(cluster)
    if queues is None:
        return
    queue = queues.get(name)
    if queue is None:
        text = f"unable to find job queue: there is no queue {name}"
        field.error(_RULE, text, did_you_mean(name, queues))
        return

    state = (queue / "status" / "state").text()
    if state and state != _OPEN:
        text = (
            f"can only submit job to queue with state `{_OPEN}`, queue `{name}` status is `{state}`"
        )
        field.error(_RULE, text, "name an open queue, or open this one: vcctl queue operate")
    if name == _ROOT:
        field.error(_RULE, "can not submit job to root queue", "name a queue below it")
        return
    children = sorted(_children(name, queues))
    if children:
        text = f"can only submit job to leaf queue, queue `{name}` has {len(children)} child queues"
        field.error(_RULE, text, f"name one of them: {', '.join(children)}")


def _children(name: str, queues: _Queues) -> Iterator[str]:
    for child, queue in queues.items():
        if (queue / "spec" / "parent").text() == name:
            yield child


def note_on_queue(name: str, cluster: ClusterFacts) -> str:
    """What is not checked of the queue; empty if nothing matters."""
    queues = _queues(cluster)
    if queues is None:
        return f"Volcano queue quota ({name}) is not checked"
    others = sorted(set(queues).difference((name, _ROOT)))
    if not others:
        return ""
    return (
        f"the share that weight, deserved and guarantee of other Volcano queues leave to {name} "
        "is not checked"
    )


def unread_of(name: str, field: str, cluster: ClusterFacts) -> tuple[UnreadField, ...]:
    """The node affinity of a queue or one above it, which is not checked.

    `field` is where the workload names its queue.
    """
    queues = _queues(cluster) or {}
    unread = []
    for queue in _upwards(name, queues):
        affinity = queues[queue] / "spec" / "affinity"
        if affinity.value:
            why = f"queue {queue} sets {affinity.path}, which restricts its pods to groups of nodes"
            unread.append(UnreadField(field, why))
    return tuple(unread)


@dataclass(frozen=True, slots=True)
class CapabilityExcess:
    """What a gang requests beyond the capability of a queue."""

    queue: str
    resource: str
    wanted: int
    used: int
    most: int

    @property
    def is_lasting(self) -> bool:
        """Whether the queue would be too small even when empty."""
        return self.wanted > self.most

    def __str__(self) -> str:
        wanted = amount(self.resource, self.wanted)
        most = amount(self.resource, self.most, self.wanted)
        text = f"the gang requests {wanted}, and the capability of queue {self.queue} is {most}"
        if self.is_lasting:
            return text
        used = amount(self.resource, self.used, self.wanted)
        return f"{text}, {used} of it allocated"


def excess(
    name: str, groups: Iterable[Group], cluster: ClusterFacts, own: Mapping[str, int]
) -> CapabilityExcess | None:
    """What exceeds the capability of a queue or one above it; None if nothing is known to.

    `own` is what pods of this workload already hold.
    """
    queues = _queues(cluster)
    if queues is None:
        return None
    wanted = Counter[str]()
    for group in groups:
        for resource, requested in group.total().items():
            wanted[resource] += requested * group.copies

    first: CapabilityExcess | None = None
    for queue in _upwards(name, queues):
        for queue_excess in _beyond(queue, queues[queue], wanted, own):
            if queue_excess.is_lasting:
                return queue_excess
            first = first or queue_excess
    return first


def _upwards(name: str, queues: _Queues) -> Sequence[str]:
    """A queue and those above it."""
    way: list[str] = []
    while name in queues and len(way) < _MOST_QUEUES:
        way.append(name)
        name = (queues[name] / "spec" / "parent").text() or _ROOT
        if name in way:
            break
    return way


def _beyond(
    name: str, queue: Field, wanted: Mapping[str, int], own: Mapping[str, int]
) -> Iterator[CapabilityExcess]:
    """The resources that one queue lacks."""
    capability = amounts_of(queue / "spec" / "capability")
    allocated = amounts_of(queue / "status" / "allocated")
    for resource, most in sorted(capability.items()):
        used = max(0, allocated.get(resource, 0) - own.get(resource, 0))
        requested = wanted.get(resource, 0)
        if requested and requested + used > most:
            yield CapabilityExcess(name, resource, requested, used, most)


def kept(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a queue that a snapshot keeps."""
    root = Field(queue)
    spec = root / "spec"
    status = root / "status"
    counting = {}
    for name in ("parent", "capability", "affinity"):
        counting[name] = (spec / name).value
    return {
        "apiVersion": queue.get("apiVersion"),
        "kind": queue.get("kind"),
        "metadata": {"name": name_of(root)},
        "spec": counting,
        "status": {"state": (status / "state").value, "allocated": (status / "allocated").value},
    }
