"""Every way to remove Toposcope leaves nothing behind, also with the page installed."""

import shutil
import subprocess
from pathlib import Path

from tests.e2e.cluster import NAMESPACE, Cluster
from tests.support.api import wait_until
from tests.support.paths import MANIFESTS
from tests.support.programs import find_helm
from toposcope.cli.main import main


def test_command_removes_everything_while_the_page_runs(cluster: Cluster, tmp_path: Path) -> None:
    overlay = cluster.install(tmp_path, "ui")
    wait_until(
        lambda: bool(cluster.left_on_nodes()),
        "the nodes have labels",
        patience=60,
    )
    cluster.wait_for_rollout("deployment/toposcope-ui", seconds=60)

    status = main(["uninstall", "--yes", "--kubeconfig", str(cluster.kubeconfig)])
    assert status == 0
    assert cluster.left_on_nodes() == []
    cluster.kubectl("delete", "--ignore-not-found", "-k", overlay)
    cluster.is_clean()


def test_helm_installs_upgrades_and_uninstalls(cluster: Cluster, tmp_path: Path) -> None:
    cluster.kubectl("apply", "--server-side", "-f", MANIFESTS / "base" / "namespace.yaml")
    chart = shutil.copytree(MANIFESTS / "chart", tmp_path / "toposcope")  # with the files that it links to
    helm(
        cluster,
        "install",
        "toposcope",
        chart,
        "--wait",
        "--set=ui.enabled=true",
        "--set=prune.onUninstall=true",
        "--set=agent.extraArgs={--spread=1}",
    )
    wait_until(
        lambda: bool(cluster.left_on_nodes()),
        "the nodes have labels",
        patience=60,
    )
    helm(
        cluster,
        "upgrade",
        "toposcope",
        chart,
        "--wait",
        "--reuse-values",
        "--set=controller.replicas=1",
    )
    helm(cluster, "uninstall", "toposcope", "--wait")
    assert cluster.left_on_nodes() == []
    # What Helm leaves by its own rules.
    cluster.kubectl("delete", "--ignore-not-found", "-k", MANIFESTS / "crds")
    cluster.kubectl("delete", "namespace", NAMESPACE)
    cluster.is_clean()


def helm(cluster: Cluster, *arguments: str | Path) -> None:
    command = [
        find_helm(),
        *arguments,
        "--namespace",
        NAMESPACE,
        "--kubeconfig",
        str(cluster.kubeconfig),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
