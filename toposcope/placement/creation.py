"""What keeps pods from being created or scheduled, however much room there is."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.constraints import Hold, Pods, Workload
from toposcope.integrations.framework.plugin import Plugin
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.integrations.framework.quotas import quota_holds
from toposcope.integrations.framework.verdict import Verdict
from toposcope.integrations.readings import READS
from toposcope.integrations.registry import PLUGINS
from toposcope.placement.cluster import Question
from toposcope.text import listing

_MOST_NAMES: Final = 3


def _titles_of_schedulers() -> Iterator[tuple[str, str]]:
    for plugin in PLUGINS:
        for name in plugin.scheduler_names:
            yield name, plugin.title


def _system_gates() -> Iterator[str]:
    for plugin in PLUGINS:
        yield from plugin.scheduling_gates


DEFAULT_SCHEDULERS: Final = ("", DEFAULT_SCHEDULER)
"""What pods of kube-scheduler have as `schedulerName`."""
_TITLES: Final = dict(_titles_of_schedulers())
"""The systems whose schedulers toposcope models, by `schedulerName`."""
_OF_SYSTEMS: Final = frozenset(_system_gates())
"""Gates that their system removes by itself."""


def creation(question: Question, verdict: Verdict) -> Verdict:
    """The verdict where something holds the workload's pods back: the gravest hold counts."""
    holds = list(_holds(question))
    for kind in ("never", "full", "unclear"):
        for hold in holds:
            if hold.kind == kind:
                return _held(verdict, hold)
    return verdict


def _held(verdict: Verdict, hold: Hold) -> Verdict:
    """The verdict with this hold, unless room alone is a graver reason."""
    is_graver = hold.kind == "never" or (hold.kind == "full" and verdict.kind != "never")
    if is_graver or verdict.fits or hold.can_open_nodes:
        return verdict.limited(hold.kind, hold.reason)
    return verdict


def _holds(question: Question) -> Iterator[Hold]:
    workload = question.workload
    if workload.suspended:
        field = workload.suspended
        yield Hold("full", f"{field} is true: no pods are created until it is set to false")

    all_pods: list[Pods] = []
    for group in workload.groups:
        all_pods += group.all_pods()
    for pods in all_pods:
        yield from pods.creation.holds
        yield from _gated(pods)
    yield from _by_another_scheduler(workload, all_pods)
    yield from _volumes_unseen(workload, all_pods)
    yield from quota_holds(all_pods, question.cluster.surroundings)


def _gated(pods: Pods) -> Iterator[Hold]:
    gates = [gate for gate in pods.creation.gates if gate not in _OF_SYSTEMS]
    if gates:
        names = listing(gates, _MOST_NAMES)
        reason = (
            f"scheduling gates on {pods.name} ({names}) block scheduling: "
            "no scheduler considers its pods until they are removed"
        )
        yield Hold("full", reason)


def _by_another_scheduler(workload: Workload, all_pods: list[Pods]) -> Iterator[Hold]:
    """Pods that another scheduler places than the one by whose rules the workload is read."""
    owner = _plugin_of(workload)
    if owner is not None and (owner.scheduler_names or owner.scheduler):
        return
    for pods in all_pods:
        name = pods.creation.scheduler
        if name in DEFAULT_SCHEDULERS:
            continue
        reason = f"schedulerName {name}: the rules of that scheduler are unknown"
        if name in _TITLES:
            reason = (
                f"schedulerName {name}: {_TITLES[name]} places these pods, "
                f"and only the rules of {workload.system} were checked"
            )
        yield Hold("unclear", reason)


def _plugin_of(workload: Workload) -> Plugin | None:
    """The system that places the workload by its own topologies; None if none does."""
    for plugin in PLUGINS:
        if plugin.name == READS.get(workload.system):
            return plugin
    return None


def _volumes_unseen(workload: Workload, all_pods: list[Pods]) -> Iterator[Hold]:
    """Volumes that tie pods to nodes, where a queue that ignores volumes chooses the nodes."""
    if workload.admission is None:
        return
    for pods in all_pods:
        for volume in pods.node_filter.volumes:
            reason = (
                f"PersistentVolumeClaim {volume.claim} ties its pods to some nodes, "
                "but its queue ignores volumes when it chooses nodes"
            )
            yield Hold("unclear", reason)
            return
