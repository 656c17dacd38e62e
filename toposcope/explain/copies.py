"""Which running pod belongs to which copy of which group: every system labels its pods for that in its own way.

Labels: Grove 0.1.0-alpha.9, LeaderWorkerSet 0.7, JobSet 0.9, Kueue 0.19.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.exclusive import GROUP_KEY, JOB_KEY, SUBGROUP_KEY
from toposcope.snapshot.model import PodView

_SET_COPY: Final = "grove.io/podcliqueset-replica-index"
_SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
_SCALING_GROUP_COPY: Final = "grove.io/podcliquescalinggroup-replica-index"
_CLIQUE: Final = "grove.io/podclique"
_JOB_KIND: Final = "jobset.sigs.k8s.io/replicatedjob-name"
_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
_POD_SET: Final = "kueue.x-k8s.io/podset"

Copy = str | None
"""The name of a copy; None: the pod is in none."""
Copies = Mapping[str, Sequence[PodView]]


def copies_of(system: str, group: Group, pods: Iterable[PodView], *, whole: bool) -> Copies | None:
    """The pods of each copy of a group; None where they cannot be told apart.

    `whole` says that the group is the whole workload: all pods are in some copy of it.
    """
    reader = _reader(system, group)
    found: dict[str, list[PodView]] = {}
    if reader:
        for pod in pods:
            copy = reader(pod.labels)
            if copy is not None:
                found.setdefault(copy, []).append(pod)
    if found:
        return found if len(found) > 1 or group.copies > 1 else {"": next(iter(found.values()))}
    if whole and group.copies == 1:
        return {"": tuple(pods)}
    return None


def _reader(system: str, group: Group) -> Callable[[Mapping[str, str]], Copy] | None:
    if system == "Grove":
        return _grove(group.name)
    if group.name.startswith("job of "):
        return _job(group.name.removeprefix("job of "))
    if system == "Kueue" and group.name.startswith("pod set "):
        pod_set = group.name.removeprefix("pod set ")
        return lambda labels: "" if labels.get(_POD_SET, pod_set) == pod_set else None
    label = group.apart if group.apart in (GROUP_KEY, SUBGROUP_KEY) else _GROUP_INDEX if group.copies > 1 else ""
    return (lambda labels: labels.get(label)) if label else None


def _grove(name: str) -> Callable[[Mapping[str, str]], Copy]:
    if name.startswith("scaling group "):
        ends = _ending(name.removeprefix("scaling group "))

        def scaling_group(labels: Mapping[str, str]) -> Copy:
            of = labels.get(_SCALING_GROUP, "")
            return f"{of}-{labels.get(_SCALING_GROUP_COPY, '?')}" if ends(of) else None

        return scaling_group
    if name.startswith("clique "):
        ends = _ending(name.removeprefix("clique "))

        def clique(labels: Mapping[str, str]) -> Copy:
            of = labels.get(_CLIQUE, "")
            return of if ends(of) else None

        return clique
    return lambda labels: labels.get(_SET_COPY)


def _ending(name: str) -> Callable[[str], bool]:
    """Grove puts the index of the copy around it before a name: `llm-0-decode`."""
    pattern = re.compile(rf".*-\d+-{re.escape(name)}")
    return lambda text: pattern.fullmatch(text) is not None


def _job(name: str) -> Callable[[Mapping[str, str]], Copy]:
    return lambda labels: labels.get(JOB_KEY) if labels.get(_JOB_KIND) == name else None
