"""One cluster after the other on a real scheduler: what it does with a workload, and what `check` says of it."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.schedulers.clusters import KUEUE, Cluster, Object, made
from tests.support.api import ApiUnderTest
from tools.apiserver.client import MERGE, wait_until
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files

Answer = Literal["placed", "pending", "refused"]
Ask = Callable[[ApiUnderTest, Object], tuple[Answer, str]]
_NOW: Final = "?gracePeriodSeconds=0&propagationPolicy=Background"
_PATIENCE: Final = 30.0
_SETTLED: Final = 30
"""Answers in a row."""
_PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "PodGroup": "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "Workload": f"/apis/{KUEUE}/namespaces/default/workloads",
    "LocalQueue": f"/apis/{KUEUE}/namespaces/default/localqueues",
    "Topology": f"/apis/{KUEUE}/topologies",
    "ResourceFlavor": f"/apis/{KUEUE}/resourceflavors",
    "ClusterQueue": f"/apis/{KUEUE}/clusterqueues",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "LimitRange": "/api/v1/namespaces/default/limitranges",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a scheduler did, beside what `check` had said."""

    seed: int
    workload: Object
    answer: Answer
    message: str
    verdict: str
    """`fits`, `unclear`, `full` or `never` (the cluster as it is), or `error`."""
    emptied: bool
    """Whether the scheduler was asked after all other pods had gone; the verdict is of before."""

    @property
    def contradiction(self) -> str:
        """What is wrong with the verdict; empty where it holds."""
        if self.verdict == "unclear":
            return ""
        if not self.emptied:
            if self.verdict == "fits" and self.answer != "placed":
                return "false fits"
            if self.verdict != "fits" and self.answer == "placed":
                return "false refusal" if self.verdict == "error" else "false cannot fit"
            return ""
        return "false cannot fit" if self.verdict == "never" and self.answer == "placed" else ""

    def __str__(self) -> str:
        where = "emptied" if self.emptied else "as it is"
        text = f"seed {self.seed}, cluster {where}: {self.contradiction}: check says {self.verdict}, {self.answer}: "
        return f"{text}{self.message}\n{json.dumps(self.workload)}"


def create(api: ApiUnderTest, objects: Iterable[Object]) -> None:
    """Create objects, and give those a status that have one."""
    for obj in objects:
        path = _PATHS[obj["kind"]]
        api.create(path, obj)
        if obj["kind"] == "Node":  # admission has added a taint that only a node controller would remove
            api.patch(f"{path}/{obj['metadata']['name']}", {"spec": {"taints": obj["spec"]["taints"]}})
        if "status" in obj:
            api.patch(f"{path}/{obj['metadata']['name']}/status", {"status": obj["status"]})


def remove(api: ApiUnderTest, objects: Iterable[Object]) -> None:
    """Delete objects and wait until they are gone."""
    paths = [f"{_PATHS[obj['kind']]}/{obj['metadata']['name']}" for obj in objects]
    for path in paths:
        api.request("DELETE", path + _NOW)
    for path in paths:
        _wait_until_gone(api, path)


def _wait_until_gone(api: ApiUnderTest, path: str) -> None:
    wait_until(lambda: api.request("GET", path)[0] == 404, f"{path} is gone", _PATIENCE)


def _owned(api: ApiUnderTest, name: str) -> list[Object]:
    """Kueue's Workloads of an object."""
    items = api.get(_PATHS["Workload"])["items"]
    return [
        workload
        for workload in items
        if any(name == o["name"] for o in workload["metadata"].get("ownerReferences") or ())
    ]


def _verdict(folder: Path, cluster: Cluster, others: list[Object], whole: Object) -> str:
    """The worst that `check` says of a workload; of several objects the first one is asked about."""
    saved = folder / "cluster.json"
    workload, *parts = whole.get("items", [whole])
    others = [*others, *parts]
    items = [*cluster.nodes, *cluster.pods, *others]
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    checked = Checker(load_files([str(saved)]), [*others, workload]).check(workload)
    if any(answer.errors for answer in checked):
        return "error"
    kinds = {answer.verdict.kind for answer in checked if answer.verdict}
    return next(kind for kind in ("never", "full", "unclear", "fits") if kind in kinds)


def on_kueue(api: ApiUnderTest, workload: Object, *, flavors: int = 1, stays: bool = False) -> tuple[Answer, str]:
    """What Kueue does with a workload, which is gone afterwards unless it `stays`.

    Of several flavors it tries one a cycle and reports each, so it counts as pending when that has not changed a while.
    """
    path, name = _PATHS[workload["kind"]], workload["metadata"]["name"]
    code, answer = api.request("POST", path, workload)
    if code != 201:
        return "refused", answer["message"]
    found: list[tuple[Answer, str]] = []
    enough = 1 if flavors == 1 else _SETTLED

    def decided() -> bool:
        for item in _owned(api, name):
            conditions = {entry["type"]: entry for entry in item.get("status", {}).get("conditions") or ()}
            reserved = conditions.get("QuotaReserved", {"status": "Unknown"})
            if reserved["status"] == "True":
                found.append(("placed", ""))
            elif reserved["status"] == "False":
                found.append(("pending", reserved["message"]))
        return bool(found) and (found[-1][0] == "placed" or found.count(found[-1]) >= enough)

    wait_until(decided, f"Kueue's answer to {name}", _PATIENCE)
    if not stays:
        remove_owned(api, workload)
    return found[-1]


def _workloads_of_kueue(api: ApiUnderTest) -> list[Object]:
    """The Workloads, as files hold them."""
    named = {"apiVersion": KUEUE, "kind": "Workload"}
    return [{**item, **named} for item in api.get(_PATHS["Workload"])["items"]]


def remove_owned(api: ApiUnderTest, workload: Object) -> None:
    """Without a garbage collector nothing removes the Workload of a Job."""
    remove(api, [workload])
    for item in _owned(api, workload["metadata"]["name"]):
        path = f"{_PATHS['Workload']}/{item['metadata']['name']}"
        api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
        api.request("DELETE", path + _NOW)
        _wait_until_gone(api, path)


def on_kube_scheduler(api: ApiUnderTest, workload: Object) -> tuple[Answer, str]:
    """What kube-scheduler does with the pods of a Job, which are gone afterwards."""
    name, spec = workload["metadata"]["name"], workload["spec"]
    indices = range(spec["parallelism"])
    pods = [made("Pod", f"{name}-{index}", spec["template"]["spec"], labels={"job": name}) for index in indices]
    create(api, pods)
    waiting: list[str] = []

    def decided() -> bool:
        waiting.clear()
        for pod in api.get(f"{_PATHS['Pod']}?labelSelector=job%3D{name}")["items"]:
            if pod["spec"].get("nodeName"):
                continue
            conditions = {entry["type"]: entry for entry in pod["status"].get("conditions") or ()}
            if conditions.get("PodScheduled", {}).get("reason") not in ("Unschedulable", "SchedulerError"):
                return False
            waiting.append(conditions["PodScheduled"]["message"])
        return True

    wait_until(decided, f"kube-scheduler's answer to {name}", _PATIENCE)
    message = waiting[0] if waiting else ""
    remove(api, pods)
    return ("pending", message) if waiting else ("placed", "")


def on_claims(api: ApiUnderTest, workload: Object) -> tuple[Answer, str]:
    """What kube-scheduler does with a Job of one pod and its claim, which are gone afterwards."""
    job, claim = workload["items"]
    create(api, [claim])
    found = on_kube_scheduler(api, job)
    left = [
        claim
        for claim in api.get(_PATHS["ResourceClaim"])["items"]
        if not claim["metadata"]["name"].startswith("held-")
    ]
    for generated in left:  # also the scheduler's own; a controller that is not here would take the finalizer off
        api.patch(f"{_PATHS['ResourceClaim']}/{generated['metadata']['name']}", {"metadata": {"finalizers": None}})
    remove(api, [{**claim, "kind": "ResourceClaim"} for claim in left])
    return found


def on_gang_scheduler(api: ApiUnderTest, workload: Object) -> tuple[Answer, str]:
    """What kube-scheduler does with a PodGroup and its pods, which are gone afterwards.

    Its first looks may miss pods, so it counts as pending when that has not changed a while.
    """
    group, *pods = workload["items"]
    name, policy = group["metadata"]["name"], group["spec"]["schedulingPolicy"]
    least = policy["gang"]["minCount"] if "gang" in policy else len(pods)
    create(api, [*pods, group])
    found: list[str] = []

    def decided() -> bool:
        items = api.get(f"{_PATHS['Pod']}?labelSelector=job%3D{name}")["items"]
        if sum("nodeName" in pod["spec"] for pod in items) >= least:
            found.append("")
            return True
        conditions = api.get(f"{_PATHS['PodGroup']}/{name}").get("status", {}).get("conditions") or ()
        found.extend(f"{condition['status']} {condition['message']}" for condition in conditions)
        return len(found) > _SETTLED and len(set(found[-_SETTLED:])) == 1

    wait_until(decided, f"kube-scheduler's answer to {name}", _PATIENCE)
    # A controller that is not here would take the finalizer off when the pods are gone.
    api.patch(f"{_PATHS['PodGroup']}/{name}", {"metadata": {"finalizers": None}})
    remove(api, [*pods, group])
    return ("pending", found[-1]) if found[-1] else ("placed", "")


def play(
    api: ApiUnderTest,
    cluster: Cluster,
    seed: int,
    workloads: Iterable[Object],
    ask: Ask,
    folder: Path,
    kueue: Sequence[Object] = (),
    holders: Iterable[Object] = (),
) -> Iterator[Comparison]:
    """Every workload alone: beside what the cluster runs and Kueue holds for others, then where all that has gone.

    `kueue` is its configuration, where it is the one that is asked.
    """
    create(api, [*cluster.nodes, *cluster.pods])
    for holder in holders:
        if on_kueue(api, holder, flavors=3, stays=True)[0] == "pending":
            remove_owned(api, holder)
    others = [*kueue, *_workloads_of_kueue(api)] if kueue else []
    asked = [(workload, _verdict(folder, cluster, others, workload)) for workload in workloads]
    for emptied in (False, True):
        if emptied:
            remove(api, cluster.pods)
            for holder in holders:
                remove_owned(api, holder)
        for workload, verdict in asked:
            answer, message = ask(api, workload)
            yield Comparison(seed, workload, answer, message, verdict, emptied)
    remove(api, cluster.nodes)
