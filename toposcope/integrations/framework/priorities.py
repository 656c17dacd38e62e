"""The priority that a pod gets from its PriorityClass.

Source: Kubernetes 1.36 (plugin/pkg/admission/priority). Messages are the API server's.
"""

from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.constraints import Hold, Priority
from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.pod_kinds import PRIORITY_CLASSES

_NEVER: Final = "Never"
_OF_KUBERNETES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The classes that exist in every cluster."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A pod's priority, and whether it can be created."""

    priority: Priority
    hold: Hold | None = None


def priority_of(spec: Field) -> Ranked:
    """The priority of a pod spec. Records a missing class as a finding."""
    where = spec / "priorityClassName"
    name = where.text()
    if not name:
        return Ranked(_default(spec))
    if name in _OF_KUBERNETES:
        return Ranked(Priority(name, _OF_KUBERNETES[name]))

    for document in spec.surroundings.each(PRIORITY_CLASSES):
        priority_class = Field(document)
        if name_of(priority_class) == name:
            return Ranked(_of_class(priority_class))
    if not spec.surroundings.knows_all(PRIORITY_CLASSES):
        return _of_pod_itself(spec, name)

    message = f"no PriorityClass with name {name} was found"
    where.error("pods/priority-class-exists", message, "create it, or name one that exists")
    hold = Hold("never", "the API server rejects its pods")
    return Ranked(Priority(name, None), hold)


def _of_pod_itself(spec: Field, name: str) -> Ranked:
    """The priority that the API server set on an existing pod, else unknown."""
    priority = spec / "priority"
    if isinstance(priority.value, int):
        policy = (spec / "preemptionPolicy").text()
        return Ranked(Priority(name, priority.value, policy != _NEVER))
    reason = f"PriorityClass {name} was not read: the API server rejects the pods if it is missing"
    return Ranked(Priority(name, None), Hold("unclear", reason))


def _default(spec: Field) -> Priority:
    """The priority of a pod without a class: that of the global default, or 0."""
    for document in spec.surroundings.each(PRIORITY_CLASSES):
        priority_class = Field(document)
        if (priority_class / "globalDefault").flag():
            return _of_class(priority_class)
    if spec.surroundings.knows_all(PRIORITY_CLASSES):
        return Priority()
    return Priority(value=None)


def _of_class(priority_class: Field) -> Priority:
    value = (priority_class / "value").value
    policy = (priority_class / "preemptionPolicy").text()
    return Priority(
        class_name=name_of(priority_class),
        value=value if isinstance(value, int) else 0,
        can_preempt=policy != _NEVER,
    )
