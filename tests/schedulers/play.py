"""One cluster after the other on a real scheduler: what it does with a workload, and what `check` says of it."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from tests.schedulers.clusters import KUEUE, Cluster, Object, made
from tests.schedulers.versions import COMPOSITES, GANGS
from tests.support.api import ApiUnderTest
from tools.apiserver.client import MERGE, wait_until
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files

Answer = Literal["placed", "pending", "refused"]
Ask = Callable[[ApiUnderTest, Object, float], tuple[Answer, str]]
"""Who is asked about a workload, and for how many seconds its refusal has to last."""
_NOW: Final = "?gracePeriodSeconds=0&propagationPolicy=Background"
PATIENCE: Final = 30.0
SETTLED: Final = 30
"""Answers in a row."""
LASTING: Final = 15.0
"""Seconds in which kube-scheduler tries again at least three times: its back-off is 1, 2 and 4 s."""
PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "PodGroup": f"/apis/{GANGS}/namespaces/default/podgroups",
    "CompositePodGroup": f"/apis/{COMPOSITES}/namespaces/default/compositepodgroups",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "Workload": f"/apis/{KUEUE}/namespaces/default/workloads",
    "LocalQueue": f"/apis/{KUEUE}/namespaces/default/localqueues",
    "Topology": f"/apis/{KUEUE}/topologies",
    "ResourceFlavor": f"/apis/{KUEUE}/resourceflavors",
    "ClusterQueue": f"/apis/{KUEUE}/clusterqueues",
    "Cohort": f"/apis/{KUEUE}/cohorts",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "LimitRange": "/api/v1/namespaces/default/limitranges",
    "ResourceQuota": "/api/v1/namespaces/default/resourcequotas",
    "PersistentVolumeClaim": "/api/v1/namespaces/default/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
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
        is_placed = self.answer == "placed"
        if self.verdict == "unclear":
            return ""
        if self.emptied:
            return "false cannot fit" if self.verdict == "never" and is_placed else ""
        if self.verdict == "fits":
            return "" if is_placed else "false fits"
        if not is_placed:
            return ""
        return "false refusal" if self.verdict == "error" else "false cannot fit"

    def __str__(self) -> str:
        where = "emptied" if self.emptied else "as it is"
        return (
            f"seed {self.seed}, cluster {where}: {self.contradiction}: "
            f"check says {self.verdict}, {self.answer}: {self.message}\n"
            f"{json.dumps(self.workload)}"
        )


def create(api: ApiUnderTest, objects: Iterable[Object]) -> None:
    """Create objects, and give those a status that have one."""
    for obj in objects:
        api.create(PATHS[obj["kind"]], obj)
        path = path_of(obj)
        if obj["kind"] == "Node":  # admission has added a taint that only a node controller would remove
            api.patch(path, {"spec": {"taints": obj["spec"]["taints"]}})
        if "status" in obj:
            api.patch(f"{path}/status", {"status": obj["status"]})


def path_of(obj: Object) -> str:
    return f"{PATHS[obj['kind']]}/{obj['metadata']['name']}"


def remove(api: ApiUnderTest, objects: Iterable[Object]) -> None:
    """Delete objects and wait until they are gone."""
    paths = [path_of(obj) for obj in objects]
    for path in paths:
        api.request("DELETE", path + _NOW)
    for path in paths:
        _wait_until_gone(api, path)


def _wait_until_gone(api: ApiUnderTest, path: str) -> None:
    wait_until(lambda: api.request("GET", path)[0] == 404, f"{path} is gone", PATIENCE)


def _owned(api: ApiUnderTest, name: str) -> list[Object]:
    """Kueue's Workloads of an object."""
    owned = []
    for workload in api.get(PATHS["Workload"])["items"]:
        owners = workload["metadata"].get("ownerReferences") or ()
        names = [owner["name"] for owner in owners]
        if name in names:
            owned.append(workload)
    return owned


def _verdict(folder: Path, cluster: Cluster, others: list[Object], whole: Object) -> str:
    """The worst that `check` says of a workload; of several objects the first one is asked about."""
    saved = folder / "cluster.json"
    workload, *parts = whole.get("items", [whole])
    others = [*others, *parts]
    document = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [*cluster.nodes, *cluster.pods, *others],
    }
    saved.write_text(json.dumps(document), encoding="utf-8")

    kinds = set()
    for answer in Checker(load_files([str(saved)]), [*others, workload]).check(workload):
        if answer.errors:
            return "error"
        if answer.verdict:
            kinds.add(answer.verdict.kind)
    for kind in ("never", "full", "unclear", "fits"):
        if kind in kinds:
            return kind
    raise AssertionError(f"check says nothing of {workload['metadata']['name']}")


class Lasting:
    """Whether something has been so for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def has_lasted(self, *, is_so: bool) -> bool:
        now = time.monotonic()
        if not is_so:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= self._seconds


def on_kueue(
    api: ApiUnderTest,
    workload: Object,
    lasting: float = 0.0,
    *,
    flavors: int = 1,
    stays: bool = False,
) -> tuple[Answer, str]:
    """What Kueue does with a workload, which is gone afterwards unless it `stays`.

    Of several flavors it tries one a cycle and reports each, so it counts as pending when that has not changed a while.
    """
    path, name = PATHS[workload["kind"]], workload["metadata"]["name"]
    code, answer = api.request("POST", path, workload)
    if code != 201:
        return "refused", answer["message"]
    answers: list[tuple[Answer, str]] = []
    enough = 1 if flavors == 1 else SETTLED
    refusal = Lasting(lasting)

    def is_decided() -> bool:
        for item in _owned(api, name):
            reserved = conditions_of(item).get("QuotaReserved", {"status": "Unknown"})
            if reserved["status"] == "True":
                answers.append(("placed", ""))
            elif reserved["status"] == "False":
                answers.append(("pending", reserved["message"]))
        if not answers:
            return False
        last, _ = answers[-1]
        if last == "placed":
            return True
        return refusal.has_lasted(is_so=True) and answers.count(answers[-1]) >= enough

    wait_until(is_decided, f"Kueue's answer to {name}", PATIENCE)
    if not stays:
        remove_owned(api, workload)
    return answers[-1]


def conditions_of(obj: Object) -> dict[str, Object]:
    """The conditions of an object by their type."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return {condition["type"]: condition for condition in conditions}


def workloads_of_kueue(api: ApiUnderTest) -> list[Object]:
    """The Workloads, as files hold them."""
    workloads = []
    for item in api.get(PATHS["Workload"])["items"]:
        workloads.append({**item, "apiVersion": KUEUE, "kind": "Workload"})
    return workloads


def pass_creation_of(api: ApiUnderTest, workload: Object) -> None:
    """Wait until what is created is younger than a workload, by timestamps in whole seconds."""
    path = f"{PATHS[workload['kind']]}/{workload['metadata']['name']}"
    created = datetime.fromisoformat(api.get(path)["metadata"]["creationTimestamp"])
    wait_until(lambda: datetime.now(UTC) > created + timedelta(seconds=2), "the next second", PATIENCE)


def stays_unanswered(api: ApiUnderTest, workload: Object) -> bool:
    """Whether Kueue does not judge a workload for a while, which is gone afterwards."""
    created, name = PATHS[workload["kind"]], workload["metadata"]["name"]
    api.create(created, workload)
    wait_until(lambda: bool(_owned(api, name)), f"the Workload of {name}", PATIENCE)
    judged = False
    for _ in range(SETTLED):
        for item in _owned(api, name):
            judged = judged or "QuotaReserved" in conditions_of(item)
    remove_owned(api, workload)
    return not judged


def remove_owned(api: ApiUnderTest, workload: Object) -> None:
    """Without a garbage collector nothing removes the Workload of a Job."""
    remove(api, [workload])
    for item in _owned(api, workload["metadata"]["name"]):
        path = f"{PATHS['Workload']}/{item['metadata']['name']}"
        api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
        api.request("DELETE", path + _NOW)
        _wait_until_gone(api, path)


def on_kube_scheduler(api: ApiUnderTest, workload: Object, lasting: float = 0.0) -> tuple[Answer, str]:
    """What kube-scheduler does with the pods of a Job, which are gone afterwards."""
    pods = pods_made_of(workload)
    create(api, pods)
    answer = answer_of_scheduler(api, workload, lasting)
    remove(api, pods)
    return answer


def on_api_server_and_scheduler(api: ApiUnderTest, workload: Object, lasting: float = 0.0) -> tuple[Answer, str]:
    """What the API server, then kube-scheduler do with the pods of a Job, which are gone afterwards."""
    pods = pods_made_of(workload)
    for index, pod in enumerate(pods):
        code, said = api.request("POST", PATHS["Pod"], pod)
        if code != 201:
            remove(api, pods[:index])
            return "refused", said["message"]
    answer = answer_of_scheduler(api, workload, lasting)
    remove(api, pods)
    return answer


def pods_made_of(job: Object) -> list[Object]:
    """The pods that the Job controller, which is not here, would make of a Job."""
    name, spec = job["metadata"]["name"], job["spec"]
    labels = {**spec["template"].get("metadata", {}).get("labels", {}), "job": name}
    pods = []
    for index in range(spec["parallelism"]):
        pods.append(made("Pod", f"{name}-{index}", spec["template"]["spec"], labels=labels))
    return pods


def answer_of_scheduler(api: ApiUnderTest, job: Object, lasting: float = 0.0) -> tuple[Answer, str]:
    """What kube-scheduler does with the pods of a Job that were created."""
    if "schedulerName" in job["spec"]["template"]["spec"]:
        return "pending", "nobody schedules it"
    name = job["metadata"]["name"]
    waiting: list[str] = []
    refusal = Lasting(lasting)

    def is_decided() -> bool:
        waiting.clear()
        for pod in pods_of(api, name):
            if pod["spec"].get("nodeName"):
                continue
            scheduled = conditions_of(pod).get("PodScheduled", {})
            if scheduled.get("reason") not in ("Unschedulable", "SchedulerError", "SchedulingGated"):
                return False
            waiting.append(scheduled["message"])
        return not waiting or refusal.has_lasted(is_so=True)

    wait_until(is_decided, f"kube-scheduler's answer to {name}", PATIENCE)
    return ("pending", waiting[0]) if waiting else ("placed", "")


def pods_of(api: ApiUnderTest, job: str) -> list[Object]:
    pods: list[Object] = api.get(f"{PATHS['Pod']}?labelSelector=job%3D{job}")["items"]
    return pods


def on_claims(api: ApiUnderTest, workload: Object, lasting: float = 0.0) -> tuple[Answer, str]:
    """What kube-scheduler does with a Job of one pod and its claim, which are gone afterwards."""
    job, claim = workload["items"]
    create(api, [claim])
    answer = on_kube_scheduler(api, job, lasting)
    remaining = []
    for item in api.get(PATHS["ResourceClaim"])["items"]:
        if not item["metadata"]["name"].startswith("held-"):
            remaining.append({**item, "kind": "ResourceClaim"})
    for item in remaining:  # also the scheduler's own; a controller that is not here would take the finalizer off
        api.patch(path_of(item), {"metadata": {"finalizers": None}})
    remove(api, remaining)
    return answer


def play(
    api: ApiUnderTest,
    cluster: Cluster,
    *,
    seed: int,
    workloads: Iterable[Object],
    ask: Ask,
    folder: Path,
    kueue: Sequence[Object] = (),
    holders: Iterable[Object] = (),
    around: Sequence[Object] = (),
) -> Iterator[Comparison]:
    """Every workload alone: beside what the cluster runs and Kueue holds for others, then where all that has gone.

    `kueue` is its configuration, where it is the one that is asked; `around` is what else `check` is to know.
    """
    create(api, [*cluster.nodes, *cluster.pods])
    for holder in holders:
        answer, _ = on_kueue(api, holder, flavors=3, stays=True)
        if answer == "pending":
            remove_owned(api, holder)
    others = [*kueue, *workloads_of_kueue(api)] if kueue else list(around)

    asked = []
    for workload in workloads:
        asked.append((workload, _verdict(folder, cluster, others, workload)))
    for emptied in (False, True):
        if emptied:
            remove(api, cluster.pods)
            for holder in holders:
                remove_owned(api, holder)
        for workload, verdict in asked:
            answer, message = ask(api, workload, 0.0)
            comparison = Comparison(seed, workload, answer, message, verdict, emptied)
            if comparison.contradiction:
                # A scheduler that is short of CPU may not have looked at everything yet.
                answer, message = ask(api, workload, LASTING)
                comparison = Comparison(seed, workload, answer, message, verdict, emptied)
            yield comparison
    remove(api, cluster.nodes)
