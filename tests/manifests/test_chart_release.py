"""A release on a real API server: it comes, changes and goes, and can take its traces along."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.manifests.rights import Attempt, kubeconfig_with, unbound_token, wait_for
from tests.manifests.support import FINISHED, JOB, TOPOLOGIES, run_kubectl, serve
from tests.support.api import MERGE, NODES, ApiUnderTest, node, wait_until
from tests.support.cleaning import remove_namespace
from tests.support.paths import MANIFESTS
from tests.support.programs import find_helm
from toposcope.cli.main import main

pytestmark = pytest.mark.slow

NAMESPACE = "toposcope-system"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
INSTALLED = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    TOPOLOGIES,
    f"{APPS}/daemonsets",
    f"{APPS}/deployments",
)
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(real_api: ApiUnderTest, kubectl: str) -> Start:
    """Starts helm as an admin, once the namespace and the CRD are there."""
    path = find_helm()
    run_kubectl(
        kubectl,
        "--kubeconfig",
        real_api.kubeconfig,
        "apply",
        "--server-side",
        "-f",
        MANIFESTS / "base" / "namespace.yaml",
    )
    # As an admin upgrades it: Helm itself leaves a CRD that is there alone.
    serve(real_api, kubectl)

    def started(*arguments: str) -> subprocess.Popen[str]:
        command = [
            path,
            *arguments,
            "--namespace",
            NAMESPACE,
            "--kubeconfig",
            str(real_api.kubeconfig),
        ]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return started


def names(api: ApiUnderTest) -> set[str]:
    found = set()
    for path in INSTALLED:
        for item in api.get(path)["items"]:
            found.add(item["metadata"]["name"])
    return found


def finish(program: subprocess.Popen[str]) -> None:
    output, _ = program.communicate(timeout=120)
    assert program.returncode == 0, output


def test_release_comes_changes_and_goes(real_api: ApiUnderTest, start: Start, chart: Path) -> None:
    before = names(real_api)
    finish(start("install", "toposcope", str(chart)))
    came = names(real_api) - before
    assert came >= {
        "toposcope-agent",
        "toposcope-controller",
        "cluster",
        "toposcope-agent.gpu.topology",
    }

    finish(start("upgrade", "toposcope", str(chart), "--set=components.nvidiaLabels=true"))
    (agent,) = real_api.get(f"{APPS}/daemonsets")["items"]
    pod = agent["spec"]["template"]["spec"]
    assert "--nvidia-labels" in pod["containers"][0]["args"]

    finish(start("uninstall", "toposcope"))
    assert names(real_api) == before


def assert_install_refused(api: ApiUnderTest, start: Start, says: str, *arguments: str) -> None:
    """Helm refuses, says why and what to do, and installs nothing."""
    before = names(api)
    helm = start("install", "toposcope", *arguments, "--create-namespace")
    output, _ = helm.communicate(timeout=120)
    assert helm.returncode != 0
    assert says in output
    assert "pod-security.kubernetes.io/enforce=" in output
    assert names(api) == before


def enforce(api: ApiUnderTest, level: str | None) -> None:
    """Have the namespace enforce a level of Pod Security, or none."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    api.patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": labels}})


def test_namespace_created_by_helm_is_refused(real_api: ApiUnderTest, start: Start, chart: Path) -> None:
    remove_namespace(real_api, NAMESPACE, [])
    assert_install_refused(real_api, start, "create namespace toposcope-system", str(chart))


def test_namespace_without_pod_security_is_refused(real_api: ApiUnderTest, start: Start, chart: Path) -> None:
    enforce(real_api, None)
    says = "lacks the label pod-security.kubernetes.io/enforce"
    assert_install_refused(real_api, start, says, str(chart))


def test_namespace_too_strict_for_the_values_is_refused(real_api: ApiUnderTest, start: Start, chart: Path) -> None:
    enforce(real_api, "restricted")
    says = 'enforces Pod Security "restricted"'
    assert_install_refused(real_api, start, says, str(chart), "--set=platform=gke")


def test_pruning_release_leaves_nothing(real_api: ApiUnderTest, start: Start, chart: Path, tmp_path: Path) -> None:
    api = real_api
    before = names(api)
    labels = {
        "example.com/pool": "a",
        "gpu.topology/gpus": "8",
    }
    api.create(NODES, node("n1", labels=labels))
    finish(start("install", "toposcope", str(chart), "--set=prune.onUninstall=true"))

    helm = start("uninstall", "toposcope", "--timeout=2m")
    try:
        wait_until(
            lambda: api.ask("GET", JOB).code == 200,
            "the hook's Job is there",
        )
        # No controller runs Jobs here: what its pod would do is done with its token.
        token = unbound_token(api, "toposcope-prune")
        wait_for(api, (Attempt("its rights", "GET", NODES),), token)
        kubeconfig = kubeconfig_with(api, token, tmp_path)
        status = main(["uninstall", "--yes", "--kubeconfig", str(kubeconfig)])
        assert status == 0
        code, answer = api.request(
            "PATCH",
            f"{JOB}/status",
            {"status": FINISHED},
            content_type=MERGE,
        )
        assert code == 200, answer
    finally:
        finish(helm)
    assert names(api) == before
    metadata = api.get(f"{NODES}/n1")["metadata"]
    assert metadata["labels"] == {"example.com/pool": "a"}
