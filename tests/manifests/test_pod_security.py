"""The pods of the base, put before the real `restricted` check of their namespace."""

import pytest
import yaml
from tests.manifests.support import NAMESPACE, Manifests, run_kubectl
from tests.support.api import ApiUnderTest

PODS = f"{NAMESPACE}/pods?dryRun=All"

pytestmark = [pytest.mark.slow, pytest.mark.real_api("Pod Security, priority and RuntimeClass admission")]


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_pods_are_admitted(installed: ApiUnderTest, base: Manifests, program: str) -> None:
    pod = base.pod(program, "admitted")
    code, answer = installed.request("POST", PODS, pod)
    assert code == 201, answer
    spec = answer["spec"]
    assert spec["priority"] >= 2_000_000_000
    assert spec["serviceAccountName"] == f"toposcope-{program}"


def test_pod_with_a_host_path_is_refused(installed: ApiUnderTest, base: Manifests) -> None:
    sysfs = {"name": "sys", "hostPath": {"path": "/sys"}}
    pod = base.pod("agent", "curious", volumes=[sysfs])
    code, answer = installed.request("POST", PODS, pod)
    assert code == 403
    assert 'violates PodSecurity "restricted:latest"' in answer["message"]


def test_workloads_are_taken_without_a_warning(installed: ApiUnderTest, base: Manifests, kubectl: str) -> None:
    workloads = base.of_kind("DaemonSet", "Deployment")
    assert len(workloads) == 2
    done = run_kubectl(
        kubectl,
        "--kubeconfig",
        installed.kubeconfig,
        "apply",
        "--server-side",
        "--dry-run=server",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(workloads),
    )
    assert done.stderr == ""
    assert done.stdout.count("serverside-applied (server dry run)") == 2
