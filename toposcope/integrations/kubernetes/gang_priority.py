"""Whether the pods of a gang have the priority of their group.

Kubernetes 1.37 (schedule_one_podgroup.go, validatePodGroup; tests/schedulers plays it): all pods of
a tree must have the priority of its outermost group, and the same preemption policy, or none of
them is placed. 1.36, which serves v1alpha2, requires neither.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from toposcope.integrations.framework.constraints import Pods, Priority
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.priorities import priority_of
from toposcope.integrations.framework.surroundings import Surroundings

_WITHOUT_RULE: Final = "/v1alpha2"
_RULE: Final = "kube-scheduler/priority"
_OTHER_PRIORITY: Final = (
    "its pods have a different priorityClassName from their PodGroup, and kube-scheduler 1.37 "
    "never schedules a group whose pods differ in priority from the group"
)
_OTHER_POLICY: Final = (
    "all pods in a single pod group should have the same preemption policy, "
    "got PreemptLowerPriority and Never"
)


@dataclass(frozen=True, slots=True)
class _Tally:
    """The number of a gang's pods by priority."""

    same: Counter[bool] = field(default_factory=Counter)
    """Pods with the group's priority, by whether they may evict others."""
    others: Counter[int] = field(default_factory=Counter)
    """Pods by priority."""
    unknown: list[int] = field(default_factory=list)

    @property
    def likely(self) -> int:
        """How many pods may have the group's priority."""
        return self.same.total() + sum(self.unknown)

    @property
    def has_others(self) -> bool:
        return bool(self.others or self.unknown)


def check_priorities(where: Field, group: Field, kinds: Iterable[Pods], needed: int) -> str:
    """Note a gang that never starts because of its priorities. Returns why it may not start.

    `group` is the outermost one, `needed` is how many of all its pods it starts with: these may be
    placed before the scheduler sees one that does not fit in. `where` gets the finding: the class
    of the group, or that of the pods.
    """
    version = (group / "apiVersion").text() or ""
    if version.endswith(_WITHOUT_RULE):
        return ""
    surroundings = where.surroundings
    name = (group / "spec" / "priorityClassName").text() or ""
    wanted = _priority(name, surroundings)
    tally = _tally(kinds, wanted, surroundings)
    if tally.others and tally.likely < max(needed, 1):
        _refuse_priority(where, group, min(tally.others), wanted)
        return ""
    has_policies = len(tally.same) > 1
    most_alike = max(tally.same.values(), default=0) + sum(tally.unknown)
    if has_policies and most_alike < needed:
        where.error(_RULE, _OTHER_POLICY, "give all pods of the group the same priorityClassName")
        return ""
    return _OTHER_PRIORITY if tally.has_others or has_policies else ""


def _tally(kinds: Iterable[Pods], wanted: Priority, surroundings: Surroundings) -> _Tally:
    """The priorities of the pods whose template is known."""
    tally = _Tally()
    for pods in kinds:
        if not pods.creation.namespace:
            continue
        priority = pods.creation.priority
        if priority.value is None:
            priority = _priority(priority.class_name, surroundings)
        if priority.class_name == wanted.class_name:
            tally.same[wanted.can_preempt] += pods.count
        elif priority.value is None or wanted.value is None:
            tally.unknown.append(pods.count)
        elif priority.value == wanted.value:
            tally.same[priority.can_preempt] += pods.count
        else:
            tally.others[priority.value] += pods.count
    return tally


def _priority(class_name: str, surroundings: Surroundings) -> Priority:
    """The priority of a PriorityClass, or of no class. Its errors are recorded elsewhere."""
    spec = {"priorityClassName": class_name}
    return priority_of(Field(spec, surroundings=surroundings)).priority


def _refuse_priority(where: Field, group: Field, pod_priority: int, wanted: Priority) -> None:
    text = (
        "all pods in a single pod group should have the same priority as the pod group's priority, "
        f"got {pod_priority} and {wanted.value}"
    )
    _, kind = kind_of(group.value)
    where.error(_RULE, text, f"give pods and {kind} the same priorityClassName")
