"""After `toposcope uninstall` and `kubectl delete -k`, as docs/install.md has it, nothing of the base is left."""

import pytest

from cli.main import main
from tests.manifests.support import MANIFESTS, Manifests, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node

pytestmark = pytest.mark.real_api("RBAC, policies and programs")


def test_an_install_goes_without_a_trace(
    installed: ApiUnderTest, kubectl: str, base: Manifests, capsys: pytest.CaptureFixture[str]
) -> None:
    installed.create(NODES, node("n1", labels={"example.com/pool": "a", "gpu.topology/gpus": "8"}))
    assert main(["uninstall", "--yes", "--kubeconfig", str(installed.kubeconfig)]) == 0
    assert "delete  clustertopology.gpu.topology/cluster" in capsys.readouterr().out
    as_admin = (kubectl, "--kubeconfig", installed.kubeconfig)
    flags = ("--ignore-not-found", "--wait=false")
    run_kubectl(*as_admin, "delete", *flags, "-k", MANIFESTS / "base")
    left = []
    for o in base:
        scope = ("-n", o["metadata"]["namespace"]) if "namespace" in o["metadata"] else ()
        if o["kind"] in {"Namespace", "CustomResourceDefinition", "ClusterTopology"}:
            continue  # where only an API server runs, nobody finishes these
        found = run_kubectl(
            *as_admin, "get", o["kind"], o["metadata"]["name"], *scope, "--ignore-not-found", "-o", "name"
        )
        left += found.stdout.split()
    assert left == []
    namespace = installed.get("/api/v1/namespaces/toposcope-system")
    assert namespace["metadata"]["deletionTimestamp"]
    assert installed.get(f"{NODES}/n1")["metadata"]["labels"] == {"example.com/pool": "a"}
