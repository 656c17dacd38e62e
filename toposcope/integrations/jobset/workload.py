"""JobSet: each child Job alone in a domain of its own.

Rules and messages: JobSet's controller and pod webhook. The annotation stands on the JobSet, for all its Jobs, or on
the Job template of one ReplicatedJob. With the node-selector strategy somebody labels the nodes before, one Job's name
each, and no affinity is used.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of
from toposcope.integrations.framework.exclusive import JOB_KEY, avoiding, exclusive_level
from toposcope.integrations.framework.node_affinity import Toleration
from toposcope.integrations.framework.pods import JOBSET, PodSet, Structure, kind_of, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.topology.levels import Level

_PREFIX: Final = "alpha.jobset.sigs.k8s.io/"
EXCLUSIVE: Final = _PREFIX + "exclusive-topology"
NODE_SELECTOR: Final = _PREFIX + "node-selector"
NAMESPACED_JOB: Final = _PREFIX + "namespaced-job"
NO_SCHEDULE: Final = _PREFIX + "no-schedule"
MOST_JOBS: Final = 256
"""With the node-selector strategy each Job has nodes of its own; of more Jobs than this each is not looked at alone."""


class JobSet:
    """Reads JobSets with exclusive placement."""

    name = "JobSet"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """JobSets with one of the annotations."""
        if kind_of(document) != JOBSET:
            return False
        root = Field(document)
        places = [root, *(job / "template" for job in (root / "spec" / "replicatedJobs").items())]
        return any(place / "metadata" / "annotations" / key for place in places for key in (EXCLUSIVE, NODE_SELECTOR))

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The set's demands; see System."""
        del before  # nothing about the annotations is checked when they change
        root = Field(document)
        tree = _Tree(root, known)
        groups = tuple(group for set_ in (structure_of(root) or Structure(())).sets for group in tree.groups(set_))
        if len(tree.levels) > 1:  # they need not nest, and only domains that do can be counted
            tree.placeable = False
            tree.notes["its Jobs are exclusive over different node labels: room is not checked"] = None
        workload = Workload(
            self.name,
            handle_of(root),
            groups,
            levels=tuple(tree.levels),
            placeable=tree.placeable,
            notes=tuple(tree.notes),
        )
        return Reading(workload, merged(root.findings))


class _Tree:
    """Builds the groups of one JobSet, and collects the levels that they need."""

    def __init__(self, root: Field, known: ClusterFacts) -> None:
        self._root = root
        self._known = known
        self.levels: dict[Level, None] = {}
        self.notes: dict[str, None] = {}
        self.placeable = True

    def groups(self, each: PodSet) -> list[Group]:
        """The Jobs of one ReplicatedJob."""
        places = [place / "metadata" / "annotations" for place in (self._root, each.job) if place]
        # What stands on the Job template wins over what it gets from the JobSet.
        exclusive = next((place / EXCLUSIVE for place in reversed(places) if place / EXCLUSIVE), None)
        strategy = next((place / NODE_SELECTOR for place in places if place / NODE_SELECTOR), None)
        name = f"job of {each.name}"
        if exclusive is None:
            if strategy:
                strategy.warn(
                    "jobset/strategy-alone",
                    f"has no effect without {EXCLUSIVE}",
                    f"add {EXCLUSIVE} with a node label key, or remove it",
                )
            return [Group(name, (each.pods,), copies=each.jobs)]
        if strategy:
            return self._selected(each, strategy)
        key = exclusive.text() or ""
        message = f"node does not have topology label: {key}"
        level = exclusive_level(exclusive, self._known, "jobset/label-exists", message)
        if level is None:
            return [Group(name, (each.pods,), copies=each.jobs)]
        self.levels[level] = None
        held = self._known.held(JOB_KEY, level.key)
        if held:
            self.notes[
                f"domains of level {level.domain} left out, as they hold Jobs of JobSets already: {len(held)}"
            ] = None
        pods = avoiding(each.pods, level.key, held)
        return [Group(name, (pods,), (), level, copies=each.jobs, apart=JOB_KEY)]

    def _selected(self, each: PodSet, strategy: Field) -> list[Group]:
        """Each Job on the nodes that carry its name; their taint is tolerated."""
        if self._known.labels and NAMESPACED_JOB not in self._known.labels:
            strategy.error(
                "jobset/nodes-labelled",
                f"no node carries the label {NAMESPACED_JOB}",
                "label the nodes of each Job with it before the JobSet starts (its value: namespace_jobset-job-index)",
            )
        if each.jobs > MOST_JOBS:
            self.placeable = False
            self.notes[f"{each.name} has more than {MOST_JOBS} Jobs with nodes of their own: room is not checked"] = (
                None
            )
            return []
        metadata = self._root / "metadata"
        owner = f"{(metadata / 'namespace').text() or 'default'}_{(metadata / 'name').text() or ''}"
        return [
            Group(f"job {each.name}-{number}", (_for(each.pods, f"{owner}-{each.name}-{number}"),))
            for number in range(each.jobs)
        ]


def _for(pods: Pods, job: str) -> Pods:
    selector = dict(pods.choice.selector) | {NAMESPACED_JOB: job}
    tolerations = (*pods.choice.tolerations, Toleration(NO_SCHEDULE, "Exists", effect="NoSchedule"))
    return replace(pods, choice=replace(pods.choice, selector=tuple(sorted(selector.items())), tolerations=tolerations))
