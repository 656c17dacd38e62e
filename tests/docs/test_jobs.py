"""docs/examples/jobs/: the commands of each recipe run, with launchers that say what they were given."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

FOLDER = ROOT / "docs" / "examples" / "jobs"
RANK_FILE = str(ROOT / "toposcope" / "rank.py")
MEETINGS = ("train-0.train", "train-workers-0-0.train", "train-worker-0.train")
"""Where pods meet in the recipes."""
TORCHRUN = '#!/bin/sh\necho "$PET_NODE_RANK of $PET_NNODES: $*"\n'
MPIRUN = '#!/bin/sh\necho "$*"\ncat $OMPI_MCA_orte_default_hostfile\n'
SSHD = '#!/bin/sh\necho "$0 $*"\n'


class JobPods:
    """The pods of one recipe; each runs the command of a container on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.place = f"127.0.0.1:{free.getsockname()[1]}"
        for name, text in (("torchrun", TORCHRUN), ("mpirun", MPIRUN), ("sshd", SSHD)):
            launcher = folder / name
            launcher.write_text(text, encoding="utf-8")
            launcher.chmod(0o755)

    def start(self, container: dict[str, Any], given: Mapping[str, str], path: str) -> None:
        """Run the container's command; `given` is what the controller adds: environment, labels, name."""
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        environment.update(TOPOSCOPE_PATH=path, TOPOSCOPE_ENDPOINT="")
        for entry in container.get("env", []):
            field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            if field == "metadata.annotations['gpu.topology/path']":
                environment[entry["name"]] = path
            else:
                environment[entry["name"]] = given[field] if field else entry["value"]
        for name, value in given.items():
            if name.isupper():
                environment[name] = value
        for name, value in environment.items():
            environment[name] = self.place if value in MEETINGS else value
        words = [self._here(word) for word in container["command"]]
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        self.running.append(process)

    def said(self) -> list[str]:
        return [process.communicate(timeout=60)[0] for process in self.running]

    def _here(self, word: str) -> str:
        word = re.sub(r"/tmp/|/etc/ray-labels/", f"{self.folder}/", word)  # noqa: S108 - the recipe's
        word = word.replace("/usr/sbin/sshd", "sshd")
        return word.replace("/opt/toposcope/rank.py", RANK_FILE)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[JobPods]:
    started = JobPods(tmp_path)
    yield started
    for process in started.running:
        process.kill()
        process.communicate()


def recipe(name: str) -> dict[str, Any]:
    """The spec of the recipe's workload, which is its last document."""
    *_, workload = yaml.load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    spec: dict[str, Any] = workload["spec"]
    return spec


def test_indexed_job_gives_torchrun_the_ranks_by_rack(pods: JobPods) -> None:
    container = recipe("job")["template"]["spec"]["containers"][0]
    pods.start(container, {"JOB_COMPLETION_INDEX": "0"}, "rack=r2")
    pods.start(container, {"JOB_COMPLETION_INDEX": "1"}, "rack=r1")
    assert pods.said() == ["1 of 2: --nproc-per-node=8 train.py\n", "0 of 2: --nproc-per-node=8 train.py\n"]


def test_leader_worker_set_gives_torchrun_the_ranks_by_rack(pods: JobPods) -> None:
    container = recipe("leaderworkerset")["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]
    group = {"LWS_GROUP_SIZE": "2", "LWS_LEADER_ADDRESS": "train-0.train"}
    pods.start(container, {"LWS_WORKER_INDEX": "0", **group}, "rack=r2")
    pods.start(container, {"LWS_WORKER_INDEX": "1", **group}, "rack=r1")
    assert pods.said() == ["1 of 2: --nproc-per-node=8 train.py\n", "0 of 2: --nproc-per-node=8 train.py\n"]


def test_job_set_orders_the_pods_of_all_its_jobs(pods: JobPods) -> None:
    job = recipe("jobset")["replicatedJobs"][0]["template"]["spec"]
    container = job["template"]["spec"]["containers"][0]
    label = "metadata.labels['jobset.sigs.k8s.io/job-index']"
    for number, rack in enumerate(["r2", "r1", "r2", "r1"]):
        given = {label: str(number // 2), "JOB_COMPLETION_INDEX": str(number % 2)}
        pods.start(container, given, f"rack={rack}")
    ranks = [line.split(":")[0] for line in pods.said()]
    assert ranks == ["2 of 4", "0 of 4", "3 of 4", "1 of 4"]


def test_mpi_job_gives_mpirun_a_hostfile_by_rack(pods: JobPods) -> None:
    replicas = recipe("mpijob")["mpiReplicaSpecs"]
    launcher = replicas["Launcher"]["template"]["spec"]["containers"][0]
    worker = replicas["Worker"]["template"]["spec"]["containers"][0]
    label = "metadata.labels['training.kubeflow.org/replica-index']"
    pods.start(launcher, {}, "")
    for number, rack in enumerate(["r2", "r1"]):
        given = {label: str(number), "metadata.name": f"train-worker-{number}"}
        pods.start(worker, given, f"rack={rack}")
    hosts = "train-worker-1.train slots=8\ntrain-worker-0.train slots=8\n"
    sshd = f"{pods.folder}/sshd -De\n"
    assert pods.said() == [f"-np 16 --map-by slot train\n{hosts}", sshd, sshd]


def test_ray_node_gets_its_path_as_labels(pods: JobPods) -> None:
    group = recipe("raycluster")["workerGroupSpecs"][0]
    pods.start(group["template"]["spec"]["initContainers"][0], {}, "block=b1,rack=r2")
    assert pods.said() == [""]
    file = Path(group["rayStartParams"]["labels-file"])
    labels = json.loads((pods.folder / file.name).read_text(encoding="utf-8"))
    assert labels == {"gpu.topology/path-block": "b1", "gpu.topology/path-rack": "r2"}
