"""How Kueue's admission changes a verdict: queue, flavors, quota and order."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import (
    Admission,
    Decision,
    Group,
    Pods,
    Workload,
)
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.placement import (
    ClusterView,
    KnownLevels,
    Placement,
    PlacementQuestion,
    ViewedPod,
)
from toposcope.integrations.framework.system import ClusterFacts, Held
from toposcope.integrations.framework.verdict import Kind, Placed, Verdict
from toposcope.integrations.kueue.api import (
    CLUSTER_QUEUE,
    POD_GROUP,
    POD_SET,
    POD_SET_OF,
    TOPOLOGIES,
    VERSION,
    WORKLOAD,
    WORKLOAD_OF,
)
from toposcope.integrations.kueue.pod_groups import document_of, with_members
from toposcope.integrations.kueue.queues import BoundNodes, held, kept
from toposcope.integrations.kueue.top_level import named_like_their_domain
from toposcope.text import shell

_NO_NODES: Final = (
    f"{VERSION} admits it, but it is uncertain whether kube-scheduler finds nodes for pods to "
    "which Kueue assigns none"
)
_FEWER: Final = (
    f"{VERSION} admits fewer pods than the workload requests (job-min-parallelism), and it is not "
    "checked whether they fit"
)


class _Placement(Placement):
    def kept(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The relevant fields of an object; None for the many Workloads that hold nothing."""
        return kept(document)

    def stand_ins(self, known: KnownLevels) -> Mapping[str, TopologyLevels]:
        """The topologies without first levels that only repeat the host."""
        topologies = {}
        for name, topology in known.suggested.items():
            unpublished = known.unpublished(name)
            levels = [level for level in topology.levels if level not in unpublished]
            topologies[name] = replace(topology, levels=tuple(levels))
        return topologies

    def held(self, cluster: ClusterFacts, view: ClusterView) -> Held:
        """The resources that Kueue reserves for admitted pods without a node."""
        if not cluster.objects.get(WORKLOAD.key):
            return {}
        return held(cluster, _bound_nodes(view))

    def with_pods(self, cluster: ClusterFacts, pods: Iterable[ViewedPod]) -> ClusterFacts:
        """Add the existing pods of pod groups to the facts."""
        members = []
        for pod in pods:
            if POD_GROUP in pod.labels or POD_GROUP in pod.annotations:
                members.append(document_of(pod))
        return with_members(cluster, members)

    def findings(
        self, workload: Workload, cluster: ClusterFacts, view: ClusterView
    ) -> Iterator[Finding]:
        """Findings on nodes that older versions of Kueue ignore for their top level's value."""
        if cluster.reads != TOPOLOGIES.option or workload.topology is None:
            return
        topology = cluster.topologies.get(workload.topology)
        if topology is not None:
            yield from named_like_their_domain(topology, view)

    def decide(self, verdict: Verdict, question: PlacementQuestion) -> Verdict:
        """The verdict after Kueue's procedure."""
        workload = question.workload
        decision = question.decision
        if workload.admission is None or decision is None:
            return verdict
        verdict = _decided(verdict, question, workload.admission, decision)
        if verdict.fits and workload.doubt:
            return verdict.limited("unclear", workload.doubt)
        return verdict


def _decided(
    verdict: Verdict, question: PlacementQuestion, admission: Admission, decision: Decision
) -> Verdict:
    if decision.doubt:
        return verdict if verdict.refuses else verdict.limited("unclear", decision.doubt)
    if decision.refusal:
        return _refused(verdict, question, admission, decision)
    if decision.is_split:
        if not _is_on_nodes(decision):
            return verdict.limited("unclear", _NO_NODES)
        return Verdict("fits", _placed(decision))
    stands = verdict.fits and not _is_in_another_flavor(verdict, question, decision)
    if stands or decision.is_incomplete:
        return verdict
    return _admitted(verdict, decision)


def _is_in_another_flavor(
    verdict: Verdict, question: PlacementQuestion, decision: Decision
) -> bool:
    """Whether pods go to nodes of a flavor other than the verdict's."""
    filters = {}
    for placed in verdict.placed:
        for pods in placed.group.pods:
            filters[pods.name] = pods.node_filter

    nodes = {node.name: node for node in question.nodes}
    for pods, name, _ in decision.placed:
        node_filter = filters.get(pods.name)
        node = nodes.get(name)
        if node_filter is None or node is None:
            continue
        if not node_filter.selects(node.name, node.labels):
            return True
    return False


def _admitted(verdict: Verdict, decision: Decision) -> Verdict:
    """The verdict if the search finds no placement for what Kueue admits."""
    if not decision.placed and decision.has_fewer_pods:
        return verdict.limited("unclear", _FEWER)
    if not decision.placed or not _is_on_nodes(decision):
        return verdict
    # What the verdict leaves out may be of another flavor than the one that is taken.
    return Verdict("fits", _placed(decision))


def _bound_nodes(view: ClusterView) -> BoundNodes:
    """The nodes of pods that Kueue admitted with a topology."""
    bound: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for pod in view.pods or ():
        node = view.by_name.get(pod.node)
        name = pod.annotations.get(WORKLOAD_OF)
        pod_set = pod.labels.get(POD_SET_OF)
        if not node or not name or not pod_set:
            continue
        key = pod.namespace, name, pod_set
        nodes = bound.setdefault(key, [])
        nodes.append(node.labels)
    return bound


def _refused(
    verdict: Verdict, question: PlacementQuestion, admission: Admission, decision: Decision
) -> Verdict:
    refusal = decision.refusal
    if decision.has_no_flavor:
        kind: Kind = "never"
        if _is_possible(admission, question):
            kind = "full"
        look = shell("kubectl describe {} {}", CLUSTER_QUEUE.name, question.workload.queue)
        limited = verdict.limited(kind, refusal, look)
        return replace(limited, steps=())
    if verdict.kind == "full":
        return verdict
    # Where there is never room for all of it, there may be for fewer pods, in a rack that counts as
    # one node, or in the flavor that is taken.
    is_possible = _is_possible(admission, question)
    if verdict.kind == "never" and not is_possible:
        return verdict
    if question.workload.topology is None and not is_possible:
        return verdict.limited("never", refusal)
    return verdict.limited("full", refusal)


def _is_possible(admission: Admission, question: PlacementQuestion) -> bool:
    """Whether it would be admitted if nothing else were running or admitted."""
    decision = admission.decide(question.nodes, emptied=True)
    return not decision.refusal


def _is_on_nodes(decision: Decision) -> bool:
    """Whether it has a node for every pod, not whole domains."""
    return all(node for _, node, _ in decision.placed)


def _placed(decision: Decision) -> tuple[Placed, ...]:
    """The nodes of each pod set, with how many pods each gets."""
    nodes_of: dict[Pods, list[tuple[str, int]]] = {}
    for pods, node, count in decision.placed:
        nodes = nodes_of.setdefault(pods, [])
        nodes.append((node, count))

    placed = []
    for pods, nodes in nodes_of.items():
        group = Group.of_kind(POD_SET, pods.name, (pods,))
        placed.append(Placed(group, (), tuple(nodes)))
    return tuple(placed)


PLACEMENT: Final = _Placement()
