"""Why a system's pods wait: the base of `WAITING` in its `waiting.py`."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.features import (
    CheckStep,
    ReadResource,
    Ref,
    SchedulerMessage,
    WorkloadObjects,
)
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.framework.verdict import Verdict
from toposcope.kube.discovery import Kind
from toposcope.text import Command, shell

CopyName = Callable[[Mapping[str, str]], str | None]
"""Names a pod's copy of a group from its labels.

None if the pod is in none, or has no label for it.
"""


class NodeState(Protocol):
    """The state of a node that matters to its pods and to waiting pods."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def is_ready(self) -> bool:
        """Whether it is Ready."""

    @property
    def is_usable(self) -> bool:
        """Whether it accepts new pods: Ready and not cordoned."""

    def label(self, key: str) -> str | None:
        """The value of a label, None if it has none."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Why a pod has a node selector that its template lacks."""

    who: str
    """What added it, by its name for people."""
    why: str = ""
    """The reason, to follow `because`."""
    way_out: tuple[str, ...] = ()
    """What to do if there is no room, one sentence each."""
    commands: tuple[Command, ...] = ()


class WaitingWorkload(WorkloadObjects, Protocol):
    """One workload with its pods and the nodes of its cluster."""

    @property
    def explained(self) -> Ref:
        """The object that sets the constraints."""

    @property
    def has_finished(self) -> bool:
        """Whether it has run to completion, or failed."""

    @property
    def is_fully_placed(self) -> bool:
        """Whether all its pods have a node."""

    @property
    def placed(self) -> Sequence[ViewedPod]:
        """Its pods with a node."""

    @property
    def waiting(self) -> Sequence[ViewedPod]:
        """Its pods without a node."""

    @property
    def cluster_nodes(self) -> Mapping[str, NodeState]:
        """All nodes of the cluster, by name."""

    def levels(self, workload: Workload) -> Sequence[Level]:
        """All levels of the workload's topology, broadest first."""

    def verdict(self, workload: Workload) -> Verdict | None:
        """Whether it would fit if none of its own pods ran."""

    def verdict_within(self, workload: Workload, nodes: Collection[str]) -> Verdict | None:
        """Whether it would fit on these nodes, beside its own pods that run."""

    def answer(self, verdict: Verdict) -> str:
        """A verdict in one sentence."""

    def advice(self, verdict: Verdict) -> Sequence[str]:
        """What to do about a verdict, one sentence each."""


class Waiting:
    """Why one system's pods wait, from its objects. A system overrides the parts that it has."""

    subjects: tuple[Kind, ...] = ()
    """Kinds that can be explained besides pods: owners of pods, and objects that schedulers create.
    """
    around: tuple[Kind, ...] = ()
    """Kinds that its scheduler reads besides workloads and topologies."""
    readers: tuple[str, ...] = ()
    """The names of its readers that use a topology resource."""
    topology_kinds: tuple[PublishedKind, ...] = ()
    """The kinds of that resource; one of them is enough."""
    made_for_pods: tuple[Kind, ...] = ()
    """Objects created from a workload that say more exactly what its pods request."""
    topology_rules: tuple[str, ...] = ()
    """Rules whose violation means that the requested topology is unknown."""
    topology_warnings: tuple[str, ...] = ()
    """Rules whose warnings mean that no topology applies."""
    level_rules: tuple[str, ...] = ()
    """Rules whose violation means that the topology lacks a requested level."""
    hierarchy_rules: tuple[str, ...] = ()
    """Rules whose violation means that the levels are in an impossible order."""
    feature_rules: tuple[str, ...] = ()
    """Rules whose violation means that another scheduler, which does not keep the pods together,
    places them."""
    gates: Mapping[str, str] = {}
    """Scheduling gates of pods, with a sentence on what removes each, and when."""

    def group_of(self, pod: ViewedPod) -> Ref | None:
        """The group that a pod names; None if it names none."""
        del pod
        return None

    def check(self, workload: WorkloadObjects) -> Iterator[CheckStep]:
        """Whether everything is enabled that keeps the pods together."""
        del workload
        yield from ()

    def settles(self, finding: Finding, workload: WorkloadObjects) -> bool:
        """Whether the cluster settles what a finding about the document leaves open."""
        del finding, workload
        return False

    def check_nodes(self, workload: WaitingWorkload) -> CheckStep | None:
        """Check for chosen nodes of its queue or scheduler that can no longer run the pods."""
        del workload
        return None

    def check_room(self, workload: WaitingWorkload) -> CheckStep | None:
        """The step about the domain that running pods leave to waiting ones."""
        del workload
        return None

    def check_drift(self, resource: ReadResource, describe: Command) -> CheckStep | None:
        """Drift that the system itself reports for a topology resource.

        `describe` is the command that shows the resource.
        """
        del resource, describe
        return None

    def made_from(self, resource: ReadResource) -> tuple[str, Kind] | None:
        """Name and kind of the topology resource that its scheduler uses instead."""
        del resource
        return None

    def copy_namer(self, system: str, group: Group) -> CopyName | None:
        """The function that names the copies of a group that its objects describe; None if unknown.

        `system` is the name of the reader that the group comes from.
        """
        del system, group
        return None

    def copy_label(self, group: Group) -> str:
        """The label with the index of a group's pods, whoever placed them; empty if none."""
        del group
        return ""

    def problems(self, workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
        """Failures that its operator reports on the objects of the workload."""
        del workload
        yield from ()

    def refusals(self, workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
        """Why its scheduler or queue holds the whole workload back now, in their words."""
        del workload
        yield from ()

    def resumes(self, workload: WorkloadObjects) -> str:
        """When it starts a suspended workload, in words; empty if never."""
        del workload
        return ""

    def pin(self, workload: WaitingWorkload, pod: ViewedPod, key: str, value: str) -> Pin | None:
        """Why a pod must go to nodes with this label; None if the selector is not this system's."""
        del workload, pod, key, value
        return None

    def messages(self, workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
        """Messages of its objects about the workload, unless they report success."""
        del workload
        yield from ()

    def steps(self, text: str) -> frozenset[str]:
        """The steps of `explain` that say more about a message that `meaning` explains."""
        del text
        return frozenset()

    def meaning(self, text: str) -> str:
        """The meaning of a message that `meanings.yaml` cannot express; empty if unknown."""
        del text
        return ""


def levels_command(topology: str | None = None) -> Command:
    """The command that shows the levels of a topology."""
    return shell("toposcope levels {}", topology) if topology else shell("toposcope levels")


def tree_command(topology: str | None, level: str = "") -> Command:
    """The command that shows the domains of a level of a topology."""
    template = "toposcope tree"
    values: list[Any] = []
    if topology:
        template += " {}"
        values.append(topology)
    if level:
        template += " --level {}"
        values.append(level)
    return shell(template, *values)
