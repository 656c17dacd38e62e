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
"""What names a pod's copy of a group by its labels.

None: the pod is in none, or is not labelled for that.
"""


class NodeState(Protocol):
    """A node of the cluster, as far as pods that have or seek a place on it care."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def is_ready(self) -> bool:
        """Whether it is Ready."""

    @property
    def is_usable(self) -> bool:
        """Whether it takes new pods: Ready and not cordoned."""

    def label(self, key: str) -> str | None:
        """The value of a label, None if it has none."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Why a pod has a node selector that its template lacks."""

    who: str
    """Who added it, by the name that people know."""
    why: str = ""
    """What it follows, after `because`."""
    way_out: tuple[str, ...] = ()
    """What to do if there is no room, a sentence each."""
    commands: tuple[Command, ...] = ()


class WaitingWorkload(WorkloadObjects, Protocol):
    """One workload with its pods and the nodes of its cluster."""

    @property
    def explained(self) -> Ref:
        """The object whose constraints count."""

    @property
    def finished(self) -> bool:
        """Whether it has run to completion, or failed."""

    @property
    def all_placed(self) -> bool:
        """Whether all its pods have a node."""

    @property
    def placed(self) -> Sequence[ViewedPod]:
        """Its pods that have a node."""

    @property
    def waiting(self) -> Sequence[ViewedPod]:
        """Its pods that have none."""

    @property
    def cluster_nodes(self) -> Mapping[str, NodeState]:
        """All nodes of the cluster, by name."""

    def levels(self, workload: Workload) -> Sequence[Level]:
        """All levels that count for a workload, broadest first."""

    def verdict(self, workload: Workload) -> Verdict | None:
        """Whether it would fit if none of its own pods ran."""

    def verdict_within(self, workload: Workload, nodes: Collection[str]) -> Verdict | None:
        """Whether it would fit on these nodes, beside its own pods that run."""

    def answer(self, verdict: Verdict) -> str:
        """A verdict in one sentence."""

    def advice(self, verdict: Verdict) -> Sequence[str]:
        """What to do about a verdict, a sentence each."""


class Waiting:
    """What one system's objects say about its waiting pods. A system overrides what it has."""

    subjects: tuple[Kind, ...] = ()
    """What can be explained besides pods: owners of pods, and what schedulers create for them."""
    around: tuple[Kind, ...] = ()
    """What its scheduler reads besides the workload and topologies."""
    readers: tuple[str, ...] = ()
    """The names of its readers that go by a topology resource."""
    topology_kinds: tuple[PublishedKind, ...] = ()
    """The kinds of that resource, any one of these."""
    made_for_pods: tuple[Kind, ...] = ()
    """Objects that somebody makes of a workload, and that say better what its pods ask for."""
    topology_rules: tuple[str, ...] = ()
    """Rules of its readers: who breaks one asks for a topology that is not known."""
    topology_warnings: tuple[str, ...] = ()
    """Rules whose warnings say that no topology counts."""
    level_rules: tuple[str, ...] = ()
    """Who breaks one asks for a level that the topology does not have."""
    hierarchy_rules: tuple[str, ...] = ()
    """Who breaks one asks for levels in an order that cannot be."""
    feature_rules: tuple[str, ...] = ()
    """Who breaks one has the pods placed by somebody who does not keep them together."""
    groups_are_written: bool = False
    """Whether people write the groups that pods name: these have no owner."""
    gates: Mapping[str, str] = {}
    """Scheduling gates of pods, and in words who removes each, and when."""

    def group_of(self, pod: ViewedPod) -> Ref | None:
        """The group that a pod names; None: none."""
        del pod
        return None

    def check(self, workload: WorkloadObjects) -> Iterator[CheckStep]:
        """Whether everything is enabled that keeps the pods together."""
        del workload
        yield from ()

    def settles(self, finding: Finding, workload: WorkloadObjects) -> bool:
        """Whether the cluster answers what a finding about the document leaves open."""
        del finding, workload
        return False

    def check_nodes(self, workload: WaitingWorkload) -> CheckStep | None:
        """Nodes that its queue or scheduler has chosen and that cannot run the pods any more."""
        del workload
        return None

    def check_room(self, workload: WaitingWorkload) -> CheckStep | None:
        """The step about the domain that pods which run leave to those that wait."""
        del workload
        return None

    def check_drift(self, resource: ReadResource, describe: Command) -> CheckStep | None:
        """Drift that the system itself reports of a topology resource.

        `describe` is the command that shows the resource.
        """
        del resource, describe
        return None

    def made_from(self, resource: ReadResource) -> tuple[str, Kind] | None:
        """Name and kind of the topology resource that its pods are scheduled by instead."""
        del resource
        return None

    def copy_namer(self, system: str, group: Group) -> CopyName | None:
        """What names the copies of a group that its objects describe; None: not known here.

        `system` is the name of the reader that the group comes from.
        """
        del system, group
        return None

    def copy_label(self, group: Group) -> str:
        """The label that numbers a group's pods, whoever placed them; empty: none."""
        del group
        return ""

    def problems(self, workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
        """What its operator reports as failed on the objects of the workload."""
        del workload
        yield from ()

    def refusals(self, workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
        """Why its scheduler or its queue holds the whole workload back now, in their words."""
        del workload
        yield from ()

    def resumes(self, workload: WorkloadObjects) -> str:
        """When it starts a suspended workload, in words; empty: it has no part in that."""
        del workload
        return ""

    def pin(self, workload: WaitingWorkload, pod: ViewedPod, key: str, value: str) -> Pin | None:
        """Why a pod has to go to nodes with this label; None: it did not add the selector."""
        del workload, pod, key, value
        return None

    def messages(self, workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
        """What its objects report about the workload, unless all is well."""
        del workload
        yield from ()

    def steps(self, text: str) -> frozenset[str]:
        """The steps of `explain` that say more about a message that `meaning` knows."""
        del text
        return frozenset()

    def meaning(self, text: str) -> str:
        """What a message means, where no pattern of `meanings.yaml` can tell; empty: not known."""
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
