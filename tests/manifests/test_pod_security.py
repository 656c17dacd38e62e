"""The pods of the base, put before the real `restricted` check of their namespace."""

import pytest
import yaml
from tests.manifests.support import NAMESPACE, Manifests, run_kubectl
from tests.support.api import ApiUnderTest

PODS = f"{NAMESPACE}/pods?dryRun=All"

pytestmark = pytest.mark.real_api("Pod Security, priority and RuntimeClass admission")


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_pods_are_admitted(installed: ApiUnderTest, base: Manifests, program: str) -> None:
    code, answer = installed.request("POST", PODS, base.pod(program, "admitted"))
    assert code == 201, answer
    assert answer["spec"]["priority"] >= 2_000_000_000
    assert answer["spec"]["serviceAccountName"] == f"toposcope-{program}"


def test_the_check_is_on(installed: ApiUnderTest, base: Manifests) -> None:
    curious = base.pod("agent", "curious", volumes=[{"name": "sys", "hostPath": {"path": "/sys"}}])
    code, answer = installed.request("POST", PODS, curious)
    assert (code, 'violates PodSecurity "restricted:latest"' in answer["message"]) == (403, True)


def test_workloads_are_taken_without_a_warning(installed: ApiUnderTest, base: Manifests, kubectl: str) -> None:
    workloads = [o for o in base if o["kind"] in {"DaemonSet", "Deployment"}]
    flags = ("--kubeconfig", installed.kubeconfig, "apply", "--server-side", "--dry-run=server", "-f", "-")
    done = run_kubectl(kubectl, *flags, stdin=yaml.safe_dump_all(workloads))
    assert done.stderr == ""
    assert done.stdout.count("serverside-applied (server dry run)") == len(workloads) == 2
