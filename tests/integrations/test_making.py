"""What is made of an AppWrapper, a CronJob and a TrainJob, and checked instead of it."""

from typing import Any

import pytest
from tests.support.workloads import Object, template, workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.readings import readings
from toposcope.integrations.registry import makers

TRAINER = "trainer.kubeflow.org"
STEP = f"{TRAINER}/trainjob-ancestor-step"
RESOURCES = {"limits": {"nvidia.com/gpu": 4}}


def replicated(name: str, step: str = "", **spec: Any) -> Object:
    """A ReplicatedJob of a runtime; its container is called like it, as runtimes have it."""
    pods = {"containers": [{"name": "node", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    labels = {STEP: step} if step else {}
    return {
        "name": name,
        "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pods}, **spec}},
    }


def runtime(*jobs: Object, policy: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": "torch"}
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"replicatedJobs": list(jobs)}}
    return {
        "apiVersion": f"{TRAINER}/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": metadata,
        "spec": {"mlPolicy": policy or {}, "template": template, **spec},
    }


def train_job(**trainer: Any) -> Object:
    return workload(f"{TRAINER}/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}, "trainer": trainer}, queue="q")


def knowing(*runtimes: Object) -> ClusterFacts:
    return ClusterFacts(objects={(TRAINER, "ClusterTrainingRuntime"): runtimes})


def made(document: Object, cluster: ClusterFacts | None = None) -> list[tuple[str, Any]]:
    """The paths and documents of what is made."""
    key = (document["apiVersion"].rpartition("/")[0], document["kind"])
    found = makers()[key](Field(document), cluster or ClusterFacts())
    return [(each.path, each.document) for each in found]


def pods_of(job_set: Object) -> dict[str, int]:
    """How many pods each ReplicatedJob of a JobSet runs; -1: it does not say."""
    counts = {}
    for job in job_set["spec"]["replicatedJobs"]:
        counts[job["name"]] = job["template"]["spec"].get("parallelism", -1)
    return counts


def test_cron_job_makes_jobs_in_its_namespace() -> None:
    spec = {"parallelism": 2, "template": template()}
    ((path, job),) = made(workload("batch/v1", "CronJob", {"jobTemplate": {"spec": spec}}))
    assert path == "spec.jobTemplate"
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "ml", "generateName": "train-"},
        "spec": spec,
    }


def test_app_wrapper_holds_objects_of_its_namespace() -> None:
    held = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    wrapper = workload("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": held}, {}, 3]})
    assert made(wrapper) == [
        ("spec.components[0].template", {**held, "metadata": {"namespace": "ml", "name": "p"}}),
    ]


def test_train_job_runs_as_many_pods_as_it_says() -> None:
    cluster = knowing(runtime(replicated("init"), replicated("node", "trainer"), policy={"numNodes": 1}))
    ((path, job_set),) = made(train_job(numNodes=3, resourcesPerNode=RESOURCES), cluster)
    assert path == "JobSet"
    assert job_set["kind"] == "JobSet"
    assert job_set["metadata"]["labels"] == {"team": "a", "queue": "q"}
    assert pods_of(job_set) == {"init": -1, "node": 3}
    init, node = job_set["spec"]["replicatedJobs"]
    assert init["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert node["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] == RESOURCES


def test_train_job_without_a_number_takes_that_of_the_runtime() -> None:
    cluster = knowing(runtime(replicated("node", "trainer", parallelism=7), policy={"numNodes": 2}))
    ((_, job_set),) = made(train_job(), cluster)
    assert pods_of(job_set) == {"node": 2}


@pytest.mark.parametrize(("as_node", "workers"), [(False, 4), (True, 3)])
def test_train_job_of_mpi_counts_its_launcher_where_it_is_a_node(as_node: bool, workers: int) -> None:
    policy = {"numNodes": 1, "mpi": {"runLauncherAsNode": as_node}}
    cluster = knowing(runtime(replicated("launcher", "trainer"), replicated("node"), policy=policy))
    ((_, job_set),) = made(train_job(numNodes=4), cluster)
    assert pods_of(job_set) == {"launcher": 1, "node": workers}


def test_train_job_when_its_runtime_is_unknown_is_unread() -> None:
    (reading,) = readings(train_job(), knowing())
    assert reading.workload is not None
    assert [unread.field for unread in reading.workload.unread] == ["kind"]


def test_train_job_when_its_runtime_starts_gangs_says_so() -> None:
    job = replicated("node", "trainer")
    cluster = knowing(runtime(job, podGroupPolicy={"volcano": {"networkTopology": {"mode": "hard"}}}))
    patched = train_job()
    patched["spec"]["runtimePatches"] = [{"manager": "x"}]
    (reading,) = readings(patched, cluster)
    assert reading.workload is not None
    assert reading.workload.handle == "jobset/train -n ml"
    assert [unread.field for unread in reading.workload.unread] == [
        "spec.runtimePatches",
        "torch.spec.podGroupPolicy",
    ]


@pytest.mark.parametrize("spec", [None, {"runtimeRef": 3}, {"runtimeRef": {"name": "torch"}, "trainer": []}])
def test_malformed_train_job_is_read_all_the_same(spec: Any) -> None:
    cluster = knowing(runtime(replicated("node", "trainer"), policy={"numNodes": 1}))
    document = workload(f"{TRAINER}/v1alpha1", "TrainJob", spec)
    assert len(readings(document, cluster)) == 1


@pytest.mark.parametrize("jobs", [None, [3], [{"template": 4}], [{"name": "node", "template": {"spec": []}}]])
def test_malformed_runtime_is_read_all_the_same(jobs: Any) -> None:
    broken = runtime(policy={"numNodes": 1})
    broken["spec"]["template"]["spec"]["replicatedJobs"] = jobs
    assert len(readings(train_job(numNodes=2, resourcesPerNode=RESOURCES), knowing(broken))) == 1
