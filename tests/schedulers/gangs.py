"""kube-scheduler's own gangs: PodGroups, trees of them, and Jobs that are gangs, drawn from a seed and played."""

import random
from collections.abc import Iterable, Mapping, Sequence

from tests.schedulers.admission import of_kind
from tests.schedulers.clusters import HOST, LEVELS, Object, made, pod_template
from tests.schedulers.play import PATHS, PATIENCE, SETTLED, Answer, conditions_of, create, path_of, pods_of, remove
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


def on_gang_scheduler(api: ApiUnderTest, workload: Object) -> tuple[Answer, str]:
    """What kube-scheduler does with a PodGroup, or a tree of them, and its pods, which are gone afterwards.

    Its first looks may miss pods, so it counts as pending when that has not changed a while.
    """
    groups = [item for item in workload["items"] if item["kind"] != "Pod"]
    pods = [item for item in workload["items"] if item["kind"] == "Pod"]
    top, *others = groups
    code, answer = api.request("POST", path_of(top).rpartition("/")[0], top)
    if code != 201:
        return "refused", answer["message"]
    create(api, [*pods, *others])
    messages: list[str] = []

    def is_decided() -> bool:
        if _has_started(top, groups, _missing(api, groups)):
            messages.append("")
            return True
        seen = []
        for group in groups:
            current = api.get(path_of(group))
            for condition in conditions_of(current).values():
                seen.append(f"{condition['status']} {condition['message']}")
        if seen:
            messages.append("\n".join(sorted(set(seen))))
        last_messages = set(messages[-SETTLED:])
        return len(messages) > SETTLED and len(last_messages) == 1

    name = top["metadata"]["name"]
    wait_until(is_decided, f"kube-scheduler's answer to {name}", PATIENCE)
    # A controller that is not here would take the finalizers off when the pods are gone.
    for group in groups:
        api.patch(path_of(group), {"metadata": {"finalizers": None}})
    remove(api, [*pods, *groups])
    return ("pending", messages[-1]) if messages[-1] else ("placed", "")


def on_job_gangs(api: ApiUnderTest, workload: Object) -> tuple[Answer, str]:
    """What the Job controller and kube-scheduler do with a Job that is a gang, which is gone afterwards."""
    code, answer = api.request("POST", PATHS["Job"], workload)
    if code != 201:
        return "refused", answer["message"]
    name = workload["metadata"]["name"]
    pods_path = f"{PATHS['Pod']}?labelSelector=batch.kubernetes.io/job-name%3D{name}"
    messages: list[str] = []

    def is_decided() -> bool:
        pods = api.get(pods_path)["items"]
        placed = [pod for pod in pods if "nodeName" in pod["spec"]]
        if len(placed) >= workload["spec"]["scheduling"]["schedulingPolicy"]["gang"]["minCount"]:
            messages.append("")
            return True
        for group in api.get(PATHS["PodGroup"])["items"]:
            for condition in conditions_of(group).values():
                messages.append(f"{condition['status']} {condition['message']}")
        last_messages = set(messages[-SETTLED:])
        return len(messages) > SETTLED and len(last_messages) == 1

    wait_until(is_decided, f"kube-scheduler's answer to {name}", PATIENCE)
    remove(api, [workload])
    # No kubelet ends its pods, and no controller takes the finalizers off.
    for kind, path in (("Pod", pods_path), ("PodGroup", PATHS["PodGroup"])):
        left = [made(kind, item["metadata"]["name"], {}) for item in api.get(path)["items"]]
        for item in left:
            api.request("PATCH", path_of(item), {"metadata": {"finalizers": None}}, content_type=MERGE)
        remove(api, left)
    return ("pending", messages[-1]) if messages[-1] else ("placed", "")


def _missing(api: ApiUnderTest, groups: Iterable[Object]) -> dict[str, int]:
    """How many pods of each PodGroup lack a node beyond those that its policy lets wait."""
    missing = {}
    for group in groups:
        name = group["metadata"]["name"]
        pods = pods_of(api, name)
        policy = group["spec"]["schedulingPolicy"]
        least = len(pods)
        if group["kind"] == "PodGroup" and "gang" in policy:
            least = policy["gang"]["minCount"]
        placed = sum("nodeName" in pod["spec"] for pod in pods)
        missing[name] = max(least - placed, 0)
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
