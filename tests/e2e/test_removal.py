"""Every way to remove Toposcope leaves nothing behind, also with the page installed."""

import shutil
import subprocess
from pathlib import Path

from tests.e2e.cluster import AT_ONCE, NAMESPACE, Cluster
from tests.support.api import NODES, wait_until
from tests.support.helm import find_helm
from tests.support.paths import MANIFESTS
from toposcope.cli.main import main

OURS = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/api/v1/namespaces",
)


def left_on_nodes(cluster: Cluster) -> list[str]:
    items = [item["metadata"] for item in cluster.api.get(NODES)["items"]]
    keys = [key for metadata in items for part in ("labels", "annotations") for key in metadata[part]]
    return [key for key in keys if key.startswith("gpu.topology/")]


def left_in_cluster(cluster: Cluster) -> list[str]:
    names = [item["metadata"]["name"] for path in OURS for item in cluster.api.get(path)["items"]]
    return [name for name in names if "toposcope" in name or "gpu.topology" in name]


def is_gone(cluster: Cluster) -> None:
    wait_until(lambda: not left_in_cluster(cluster), "nothing is left in the cluster", 60)
    assert left_on_nodes(cluster) == []


def install(cluster: Cluster, folder: Path) -> Path:
    """With the page; the overlay's folder."""
    overlay = cluster.install(folder, "ui")
    wait_until(lambda: bool(left_on_nodes(cluster)), "the nodes have labels", 60)
    return overlay


def test_the_command_removes_everything_while_the_page_runs(cluster: Cluster, tmp_path: Path) -> None:
    overlay = install(cluster, tmp_path)
    cluster.kubectl("rollout", "status", "-n", NAMESPACE, "deployment/toposcope-ui", "--timeout=60s")
    assert main(["uninstall", "--yes", "--kubeconfig", str(cluster.kubeconfig)]) == 0
    assert left_on_nodes(cluster) == []
    cluster.kubectl("delete", "--ignore-not-found", "-k", overlay)
    is_gone(cluster)


def test_the_prune_job_removes_everything(cluster: Cluster, tmp_path: Path) -> None:
    overlay = install(cluster, tmp_path)
    cluster.kubectl("apply", "--server-side", "-k", MANIFESTS / "prune")
    cluster.wait_for(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/toposcope-prune", "Complete", 100)
    assert left_on_nodes(cluster) == []
    cluster.kubectl("delete", "--ignore-not-found", "-k", MANIFESTS / "prune")
    cluster.kubectl("delete", "--ignore-not-found", "-k", overlay)
    is_gone(cluster)


def test_helm_installs_upgrades_and_uninstalls(cluster: Cluster, tmp_path: Path) -> None:
    cluster.kubectl("apply", "--server-side", "-f", MANIFESTS / "base" / "namespace.yaml")
    chart = shutil.copytree(MANIFESTS / "chart", tmp_path / "toposcope")  # with the files that it links to
    helm(
        cluster,
        "install",
        "toposcope",
        chart,
        "--wait",
        "--set",
        f"ui.enabled=true,prune.onUninstall=true,agent.extraArgs={{{AT_ONCE}}}",
    )
    wait_until(lambda: bool(left_on_nodes(cluster)), "the nodes have labels", 60)
    helm(cluster, "upgrade", "toposcope", chart, "--wait", "--reuse-values", "--set", "controller.replicas=1")
    helm(cluster, "uninstall", "toposcope", "--wait")
    assert left_on_nodes(cluster) == []
    # What Helm leaves by its own rules.
    cluster.kubectl("delete", "--ignore-not-found", "-k", MANIFESTS / "crds")
    cluster.kubectl("delete", "namespace", NAMESPACE)
    is_gone(cluster)


def helm(cluster: Cluster, *arguments: str | Path) -> None:
    command = [find_helm(), *arguments, "--namespace", NAMESPACE, "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
