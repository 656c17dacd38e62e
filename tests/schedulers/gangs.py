"""kube-scheduler's own gangs: PodGroups, trees of them, and Jobs that are gangs, drawn from a seed and played."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.schedulers.admission import of_kind
from tests.schedulers.clusters import HOST, LEVELS, Object, made, pod_template
from tests.schedulers.play import (
    PATHS,
    PATIENCE,
    SETTLED,
    Answer,
    Lasting,
    conditions_of,
    create,
    path_of,
    pods_of,
    remove,
)
from tests.support.api import ApiUnderTest
from tools.apiserver.client import MERGE, wait_until

NOWHERE = "example.com/nowhere"
"""A label key that no node carries."""
CLASSES = ("", "low", "as-low", "high", "low-evicting")
"""The PriorityClasses of `priority_classes`, and none."""


def gang(rng: random.Random, name: str) -> Object:
    """A PodGroup and its pods, of one or two sizes; one key in twenty is on no node."""
    sizes = 1 if rng.random() < 0.7 else 2
    templates = []
    for _ in range(sizes):
        templates.append(pod_template(rng)["spec"])
    pods = rng.choice((1, 2, 3, 4, 6, 8, 12))
    least = pods
    if sizes == 1 and rng.random() < 0.3:
        least = rng.randint(1, pods)
    policy: Object = {"gang": {"minCount": least}}
    if rng.random() < 0.15:
        policy = {"basic": {}}
    spec: Object = {"schedulingPolicy": policy}
    if rng.random() < 0.85:
        key = NOWHERE
        if rng.random() < 0.95:
            key = rng.choice(LEVELS)
        spec["schedulingConstraints"] = constraints(key)

    objects = [made("PodGroup", name, spec)]
    for number in range(pods):
        template = templates[number * sizes // pods]
        objects.append(member(name, number, template))
    return {"items": objects}


def ranked(rng: random.Random, objects: list[Object]) -> list[Object]:
    """A gang or a tree, of which the outermost group and the pods may be of a PriorityClass, most often of the same."""
    usual = rng.choice(CLASSES)
    outermost, *others = objects
    _rank(rng, outermost, usual)
    for obj in others:
        if obj["kind"] == "Pod":
            _rank(rng, obj, usual)
    return objects


def _rank(rng: random.Random, obj: Object, usual: str) -> None:
    name = usual
    if rng.random() < 0.05:
        name = rng.choice(CLASSES)
    if name:
        obj["spec"]["priorityClassName"] = name


def priority_classes() -> list[Object]:
    """Two of one value, one of another, and one of the first value that evicts others."""
    values = {"low": 10, "as-low": 10, "high": 20}
    classes = []
    for name, value in values.items():
        fields = {"value": value, "preemptionPolicy": "Never"}
        classes.append(of_kind("scheduling.k8s.io/v1", "PriorityClass", name, **fields))
    classes.append(of_kind("scheduling.k8s.io/v1", "PriorityClass", "low-evicting", value=10))
    return classes


def constraints(key: str) -> Object:
    """What keeps a group within one value of a label."""
    return {"topology": [{"key": key}]}


def member(group: str, number: int, template: Object) -> Object:
    """A pod of a PodGroup."""
    spec = {**template, "schedulingGroup": {"podGroupName": group}}
    return made("Pod", f"{group}-{number}", spec, labels={"job": group})


def tree(rng: random.Random, name: str) -> Object:
    """A CompositePodGroup with PodGroups, some of them in another CompositePodGroup, and their pods.

    The outermost one comes first. One in twenty lacks the `workloadRef` that the API server asks for.
    """
    keys = list(LEVELS[:2])
    if rng.random() < 0.2:
        keys.reverse()
    is_nested = rng.random() < 0.4
    has_equal_groups = rng.random() < 0.6
    template = pod_template(rng)["spec"]
    pods = rng.randint(1, 4)
    groups: list[Object] = []
    members: list[Object] = []
    children = rng.randint(1, 3)
    if is_nested:
        groups.append(_composite(rng, name, keys[0], children=1))
        inner = f"{name}-inner"
        groups.append(_composite(rng, inner, keys[1], children=children, parent=name))
    else:
        inner = name
        groups.append(_composite(rng, name, rng.choice(keys), children=children))
    if rng.random() < 0.05:
        del groups[0]["spec"]["workloadRef"]
    for number in range(children):
        if not has_equal_groups:
            template = pod_template(rng)["spec"]
            pods = rng.randint(1, 4)
        leaf = f"{name}-{number}"
        groups.append(_leaf(rng, leaf, inner, pods))
        for index in range(pods):
            members.append(member(leaf, index, template))
    return {"items": [*groups, *members]}


def _composite(rng: random.Random, name: str, key: str, *, children: int, parent: str = "") -> Object:
    least = children
    if rng.random() < 0.3:
        least = rng.randint(1, children)
    spec: Object = {
        "schedulingPolicy": {"gang": {"minGroupCount": least}},
        "workloadRef": {"workloadName": name, "templateName": name},
    }
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if rng.random() < 0.8:
        spec["schedulingConstraints"] = constraints(key)
    return made("CompositePodGroup", name, spec)


def _leaf(rng: random.Random, name: str, parent: str, pods: int) -> Object:
    spec: Object = {
        "parentCompositePodGroupName": parent,
        "schedulingPolicy": {"gang": {"minCount": pods}},
        "workloadRef": {"workloadName": name, "templateName": name},
    }
    if rng.random() < 0.2:
        spec["schedulingConstraints"] = constraints(HOST)
    return made("PodGroup", name, spec)


def job(rng: random.Random, name: str) -> Object:
    """A Job that is a gang by itself, within one value of a label."""
    pods = rng.randint(1, 8)
    template = pod_template(rng)
    scheduling = {
        "schedulingPolicy": {"gang": {"minCount": pods}},
        "schedulingConstraints": constraints(rng.choice(LEVELS)),
    }
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "template": template,
        "scheduling": scheduling,
    }
    return made("Job", name, spec)


@dataclass(frozen=True)
class Look:
    """How far kube-scheduler is with a gang."""

    has_started: bool
    """Whether as many pods have a node as the gang asks for."""
    bound: int
    """Pods that have one."""
    refusal: str
    """What the conditions say that are not true; empty while nothing is refused."""


class Looks:
    """Looks at a gang until kube-scheduler has answered and nothing of it is under way.

    Its first looks may miss pods, so what does not change for a while is an answer. It binds pods after their group is
    scheduled, so a gang that has started may still be under way.
    """

    def __init__(self, lasting: float) -> None:
        self._looks: list[Look] = []
        self._refusal = Lasting(lasting)

    def decide(self, look: Look, *, pods: int) -> bool:
        """Whether this look at a gang of some pods is the last one that is needed."""
        self._looks.append(look)
        if pods and look.bound == pods:
            return True
        is_settled = self._looks[-SETTLED:].count(look) == SETTLED
        if look.has_started:
            return is_settled
        return self._refusal.has_lasted(is_so=is_settled and bool(look.refusal))

    @property
    def answer(self) -> tuple[Answer, str]:
        last = self._looks[-1]
        return ("placed", "") if last.has_started else ("pending", last.refusal)


def on_gang_scheduler(api: ApiUnderTest, workload: Object, lasting: float = 0.0) -> tuple[Answer, str]:
    """What kube-scheduler does with a PodGroup, or a tree of them, and its pods, which are gone afterwards."""
    groups = [item for item in workload["items"] if item["kind"] != "Pod"]
    pods = [item for item in workload["items"] if item["kind"] == "Pod"]
    top, *others = groups
    code, answer = api.request("POST", path_of(top).rpartition("/")[0], top)
    if code != 201:
        return "refused", answer["message"]
    create(api, [*pods, *others])
    looks = Looks(lasting)

    def is_decided() -> bool:
        members = {}
        for group in groups:
            name = group["metadata"]["name"]
            members[name] = pods_of(api, name)
        current_pods = [pod for group_pods in members.values() for pod in group_pods]
        look = Look(
            has_started=_has_started(top, groups, _missing(groups, members)),
            bound=_bound(current_pods),
            refusal=_refusal([api.get(path_of(group)) for group in groups], current_pods),
        )
        return looks.decide(look, pods=len(pods))

    name = top["metadata"]["name"]
    wait_until(is_decided, f"kube-scheduler's answer to {name}", PATIENCE)
    # A controller that is not here would take the finalizers off when the pods are gone.
    for group in groups:
        api.patch(path_of(group), {"metadata": {"finalizers": None}})
    _remove_pods(api, [pod for group in groups for pod in pods_of(api, group["metadata"]["name"])])
    remove(api, groups)
    return looks.answer


def on_job_gangs(api: ApiUnderTest, workload: Object, lasting: float = 0.0) -> tuple[Answer, str]:
    """What the Job controller and kube-scheduler do with a Job that is a gang, which is gone afterwards."""
    code, answer = api.request("POST", PATHS["Job"], workload)
    if code != 201:
        return "refused", answer["message"]
    name = workload["metadata"]["name"]
    pods_path = f"{PATHS['Pod']}?labelSelector=batch.kubernetes.io/job-name%3D{name}"
    least = workload["spec"]["scheduling"]["schedulingPolicy"]["gang"]["minCount"]
    looks = Looks(lasting)

    def is_decided() -> bool:
        pods = api.get(pods_path)["items"]
        bound = _bound(pods)
        refusal = _refusal(api.get(PATHS["PodGroup"])["items"], pods)
        look = Look(has_started=bound >= least, bound=bound, refusal=refusal)
        return looks.decide(look, pods=workload["spec"]["parallelism"])

    wait_until(is_decided, f"kube-scheduler's answer to {name}", PATIENCE)
    remove(api, [workload])
    # No kubelet ends its pods, and no controller takes the finalizers off.
    pods = api.get(pods_path)["items"]
    groups = [made("PodGroup", group["metadata"]["name"], {}) for group in api.get(PATHS["PodGroup"])["items"]]
    for item in (*[made("Pod", pod["metadata"]["name"], {}) for pod in pods], *groups):
        api.request("PATCH", path_of(item), {"metadata": {"finalizers": None}}, content_type=MERGE)
    _remove_pods(api, pods)
    remove(api, groups)
    return looks.answer


def _remove_pods(api: ApiUnderTest, pods: Sequence[Object]) -> None:
    """Remove pods of a gang, those that wait first.

    They would get the room of the others, and kube-scheduler 1.36 never forgets one that is deleted while it is bound:
    its GPUs stay taken.
    """
    waiting: list[Object] = []
    bound: list[Object] = []
    for pod in pods:
        same_kind = bound if "nodeName" in pod["spec"] else waiting
        same_kind.append(made("Pod", pod["metadata"]["name"], {}))
    remove(api, waiting)
    remove(api, bound)


def _bound(pods: Iterable[Object]) -> int:
    return sum("nodeName" in pod["spec"] for pod in pods)


def _refusal(groups: Iterable[Object], pods: Iterable[Object]) -> str:
    """What the conditions of groups say that are not true; of pods only why, as their messages change all the time."""
    refusals = set()
    for group in groups:
        for condition in conditions_of(group).values():
            if condition["status"] != "True":
                refusals.add(f"{condition['status']} {condition['message']}")
    for pod in pods:
        scheduled = conditions_of(pod).get("PodScheduled", {})
        if scheduled.get("status") == "False":
            refusals.add(scheduled["reason"])
    return "\n".join(sorted(refusals))


def _missing(groups: Iterable[Object], members: Mapping[str, Sequence[Object]]) -> dict[str, int]:
    """How many pods of each PodGroup lack a node beyond those that its policy lets wait."""
    missing = {}
    for group in groups:
        name = group["metadata"]["name"]
        pods = members[name]
        policy = group["spec"]["schedulingPolicy"]
        least = len(pods)
        if group["kind"] == "PodGroup" and "gang" in policy:
            least = policy["gang"]["minCount"]
        missing[name] = max(least - _bound(pods), 0)
    return missing


def _has_started(group: Object, groups: Sequence[Object], missing: Mapping[str, int]) -> bool:
    """Whether as much of a group runs as its policy asks for."""
    name = group["metadata"]["name"]
    if group["kind"] == "PodGroup":
        return missing[name] == 0
    started = 0
    for child in groups:
        if child["spec"].get("parentCompositePodGroupName") == name:
            started += _has_started(child, groups, missing)
    least: int = group["spec"]["schedulingPolicy"]["gang"]["minGroupCount"]
    return started >= least
