"""What the image holds starts as a pod starts it: user 65532 without rights, nothing to write to, no HOME, no shell."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        api.create(CRDS, yaml.safe_load(CRD.read_text(encoding="utf-8")))
        api.settled_crd("clustertopologies.gpu.topology")
        kind = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": "cluster"}}
        api.create(TOPOLOGIES, kind)
        api.create(NODES, node("n1", labels={HOSTNAME: "n1", GPUS: "8"}))
        create_namespace(api, "toposcope-system")
        yield api


def arguments(kind: str, program: str) -> list[str]:
    """What the base's manifests say, without the port."""
    (found,) = yaml.safe_load_all((MANIFESTS / "base" / f"{program}-{kind}.yaml").read_text(encoding="utf-8"))
    (container,) = found["spec"]["template"]["spec"]["containers"]
    given: list[str] = container["args"]
    at = given.index("--metrics-port")
    return given[:at] + given[at + 2 :]


@contextmanager
def running(confinement: Confinement, *command: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], int]]]:
    """A program and what its HTTP server answers; it must end well when it is told to, and without a traceback."""
    port = free_port()
    client = HttpClient(f"http://127.0.0.1:{port}", None)

    def answers(path: str) -> int:
        try:
            return client.request("GET", path).code
        except OSError:
            return 0

    program = confinement.start("toposcope", *command, "--metrics-port", str(port))
    try:
        wait_until(lambda: answers("/healthz") == 200 or program.poll() is not None, "it is alive")
        yield program, answers
    finally:
        program.terminate()
        said, _ = program.communicate(timeout=30)
    assert program.returncode == 0, said
    assert "Traceback" not in said


def identity(program: subprocess.Popen[str]) -> dict[str, str]:
    """Who a process is, in the kernel's words."""
    text = Path(f"/proc/{program.pid}/status").read_text(encoding="utf-8")
    return dict(line.split(":\t", 1) for line in text.splitlines())


def test_confinement_is_one(confinement: Confinement, prefix: Path) -> None:
    done = confinement.run("python", "-c", PROBE.replace("PREFIX", repr(str(prefix))))
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
    flags = ["--node-name", "n1", "--spread", "0", "--kubeconfig", str(server.kubeconfig), "--sysfs", str(sysfs)]
    with running(confinement, *arguments("daemonset", "agent"), *flags) as (program, answers):
        assert identity(program)["Uid"].split() == [str(USER)] * 4
        wait_until(lambda: STATE in server.get(f"{NODES}/n1")["metadata"]["labels"], "it has written")
        assert answers("/healthz") == 200
        assert answers("/metrics") == 200


def test_controller_starts_leads_and_writes_its_status(confinement: Confinement, server: ApiUnderTest) -> None:
    kubeconfig = ["--kubeconfig", str(server.kubeconfig), "--debounce", "0"]
    leases = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "toposcope-controller"}}
    server.create(leases, lease | {"spec": {"leaseDurationSeconds": 1}})
    with running(confinement, *arguments("deployment", "controller"), *kubeconfig) as (program, answers):
        assert identity(program)["Uid"].split() == [str(USER)] * 4
        wait_until(lambda: "conditions" in server.get(f"{TOPOLOGIES}/cluster").get("status", {}), "it has written")
        wait_until(lambda: answers("/readyz") == 200, "it is ready")
        assert answers("/metrics") == 200


def test_command_answers(confinement: Confinement, server: ApiUnderTest) -> None:
    assert confinement.run("toposcope", "--version").stdout == f"toposcope {__version__}\n"
    for command in (["tree"], ["nodes"], ["levels"], ["uninstall"]):
        done = confinement.run("toposcope", *command, "--kubeconfig", server.kubeconfig)
        # 1 says that something is amiss in the cluster, as a driver that is missing.
        assert done.returncode in {0, 1}, command
        assert done.stderr == "", command
        assert done.stdout.strip(), command
