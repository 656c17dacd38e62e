"""The manifests, rendered and applied as an administrator does it."""

import shutil
from typing import Any

import pytest
import yaml

from tests.manifests.support import MANIFESTS, TOPOLOGIES, Manifests, run_kubectl
from tests.support.api import ApiUnderTest, wait_until


@pytest.fixture(scope="session")
def kubectl() -> str:
    path = shutil.which("kubectl")
    if path is None:
        pytest.skip("kubectl is not on PATH; it renders the kustomize base")
    return path


@pytest.fixture(scope="session")
def base(kubectl: str) -> Manifests:
    done = run_kubectl(kubectl, "kustomize", MANIFESTS / "base")
    assert done.stderr == ""
    return Manifests(list(yaml.safe_load_all(done.stdout)))


@pytest.fixture(scope="session")
def crd() -> dict[str, Any]:
    path = MANIFESTS / "crds" / "gpu.topology_clustertopologies.yaml"
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


@pytest.fixture
def served(api: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """An API server that serves ClusterTopology."""
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", MANIFESTS / "crds")
    wait_until(lambda: api.request("GET", TOPOLOGIES)[0] == 200, "clustertopologies are served")
    return api


@pytest.fixture
def installed(served: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """An API server with the whole base applied, and the RuntimeClass that a GPU cluster brings along."""
    run_kubectl(kubectl, "--kubeconfig", served.kubeconfig, "apply", "--server-side", "-k", MANIFESTS / "base")
    nvidia = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    code, answer = served.apply("/apis/node.k8s.io/v1/runtimeclasses/nvidia", nvidia)
    assert code in {200, 201}, answer
    return served
