"""What the image holds starts as a pod starts it: user 65532 without rights, nothing to write to, no HOME, no shell."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.image.confined import USER, Confinement
from tests.manifests.support import TOPOLOGIES
from tests.support.api import CRDS, NODES, ApiUnderTest, create_namespace, node, wait_until
from tests.support.paths import CRD, MANIFESTS
from tools.apiserver.client import HttpClient
from tools.apiserver.server import free_port
from toposcope import __version__
from toposcope.api.label_keys import GPUS, HOSTNAME, STATE
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

pytestmark = pytest.mark.slow

PROBE = """
import json, os
def writes(path):
    try:
        open(path, "x")
    except OSError as error:
        return error.errno
    return 0
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "writes": {folder: writes(folder + "/written") for folder in ("", "/tmp", "/var/tmp", "/dev/shm", "/run", PREFIX)},
    "status": {name: status[name] for name in ("Uid", "Groups", "CapEff", "CapBnd", "NoNewPrivs")},
    "shell": os.system("true"), "home": os.environ.get("HOME"),
}))
"""
READ_ONLY = 30  # EROFS
NOT_FOUND = 127  # what system() answers without a shell


@pytest.fixture(scope="module")
def confinement(prefix: Path) -> Confinement:
    return Confinement(prefix, prefix.parent / "root")


@pytest.fixture(scope="module")
def server(prefix: Path) -> Iterator[ApiUnderTest]:
    """An API server with a node and the CRD, and a kubeconfig that the programs can read."""
    with EmbeddedApiServer() as embedded:
        api = ApiUnderTest.of_embedded(embedded, prefix.parent)
        api.kubeconfig.chmod(0o644)
        crd = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)
        api.create(CRDS, crd)
        api.settled_crd("clustertopologies.gpu.topology")
        topology = {
            "apiVersion": "gpu.topology/v1alpha1",
            "kind": "ClusterTopology",
            "metadata": {"name": "cluster"},
        }
        api.create(TOPOLOGIES, topology)
        api.create(NODES, node("n1", labels={HOSTNAME: "n1", GPUS: "8"}))
        create_namespace(api, "toposcope-system")
        yield api


def arguments(kind: str, program: str) -> list[str]:
    """What the base's manifests say, without the port."""
    file = MANIFESTS / "base" / f"{program}-{kind}.yaml"
    workload = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given: list[str] = container["args"]
    at = given.index("--metrics-port")
    return given[:at] + given[at + 2 :]


@dataclass(frozen=True)
class Program:
    """A program that runs, with an HTTP server."""

    process: subprocess.Popen[str]
    client: HttpClient

    def answers(self, path: str) -> int:
        """The status of an answer; 0 where there is none."""
        try:
            return self.client.request("GET", path).code
        except OSError:
            return 0

    def is_up(self) -> bool:
        """Whether it serves or has ended."""
        return self.answers("/healthz") == 200 or self.process.poll() is not None

    def users(self) -> list[str]:
        """Its real, effective, saved and file system user."""
        file = Path(f"/proc/{self.process.pid}/status")
        status = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":\t")
            status[name] = value
        return status["Uid"].split()


@contextmanager
def running(confinement: Confinement, *command: str) -> Iterator[Program]:
    """A program; it must end well when it is told to, and without a traceback."""
    port = free_port()
    process = confinement.start(
        "toposcope",
        *command,
        "--metrics-port",
        str(port),
    )
    client = HttpClient(f"http://127.0.0.1:{port}", None)
    program = Program(process, client)
    try:
        wait_until(program.is_up, "it is alive")
        yield program
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_confined_program_writes_nothing_and_has_no_rights(confinement: Confinement, prefix: Path) -> None:
    probe = PROBE.replace("PREFIX", repr(str(prefix)))
    done = confinement.run("python", "-c", probe)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    for folder, error in found["writes"].items():
        assert error == READ_ONLY, folder
    status = found["status"]
    assert status["Uid"].split() == [str(USER)] * 4
    assert status["Groups"].split() == []
    assert int(status["CapEff"], 16) == 0
    assert int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert found["shell"] >> 8 == NOT_FOUND
    assert found["home"] is None


def test_agent_starts_serves_and_writes(confinement: Confinement, server: ApiUnderTest, prefix: Path) -> None:
    # GPUs on the bus and no driver: what is found without one is written, and that the rest is unknown.
    sysfs = prefix.parent / "sys"
    write_sysfs(load_profile("dgx-h200"), sysfs)
    command = [
        *arguments("daemonset", "agent"),
        "--node-name=n1",
        "--spread=0",
        f"--kubeconfig={server.kubeconfig}",
        f"--sysfs={sysfs}",
    ]

    def has_written() -> bool:
        metadata = server.get(f"{NODES}/n1")["metadata"]
        return STATE in metadata["labels"]

    with running(confinement, *command) as program:
        assert program.users() == [str(USER)] * 4
        wait_until(has_written, "it has written")
        assert program.answers("/healthz") == 200
        assert program.answers("/metrics") == 200


def test_controller_starts_leads_and_writes_its_status(confinement: Confinement, server: ApiUnderTest) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "toposcope-controller"},
        "spec": {"leaseDurationSeconds": 1},
    }
    server.create("/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases", lease)
    command = [
        *arguments("deployment", "controller"),
        f"--kubeconfig={server.kubeconfig}",
        "--debounce=0",
    ]

    def has_written() -> bool:
        topology = server.get(f"{TOPOLOGIES}/cluster")
        return "conditions" in topology.get("status", {})

    with running(confinement, *command) as program:
        assert program.users() == [str(USER)] * 4
        wait_until(has_written, "it has written")
        wait_until(lambda: program.answers("/readyz") == 200, "it is ready")
        assert program.answers("/metrics") == 200


def test_confined_command_answers(confinement: Confinement, server: ApiUnderTest) -> None:
    done = confinement.run("toposcope", "--version")
    assert done.stdout == f"toposcope {__version__}\n"
    for command in ("tree", "nodes", "levels", "uninstall"):
        done = confinement.run(
            "toposcope",
            command,
            "--kubeconfig",
            server.kubeconfig,
        )
        # 1 says that something is amiss in the cluster, as a driver that is missing.
        assert done.returncode in {0, 1}, command
        assert done.stderr == "", command
        assert done.stdout.strip(), command
