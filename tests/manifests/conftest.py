"""The manifests, rendered and applied as an administrator does it."""

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.support import Manifests, Render, built, install, serve, write_overlay
from tests.support.api import ApiUnderTest
from tests.support.paths import MANIFESTS


@pytest.fixture(scope="session")
def kubectl() -> str:
    path = shutil.which("kubectl")
    if path is None:
        pytest.skip("kubectl is not on PATH; it renders the kustomize base")
    return path


@pytest.fixture(scope="session")
def base(kubectl: str) -> Manifests:
    return built(kubectl, MANIFESTS / "base")


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the chart with the files that it links to, as `make chart` makes it."""
    folder = tmp_path_factory.mktemp("chart") / "toposcope"
    shutil.copytree(MANIFESTS / "chart", folder)
    return folder


@pytest.fixture(scope="session")
def prune(kubectl: str) -> Manifests:
    return built(kubectl, MANIFESTS / "prune")


@pytest.fixture(scope="session")
def render(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Builds the base with some components, each set once."""

    @functools.cache
    def rendered(*components: str) -> Manifests:
        folder = tmp_path_factory.mktemp("overlay").resolve()
        return built(kubectl, write_overlay(folder, components))

    return rendered


@pytest.fixture(scope="session")
def crd() -> dict[str, Any]:
    return yaml.load((MANIFESTS / "crds" / "gpu.topology_clustertopologies.yaml").read_text(), yaml.CSafeLoader)


@pytest.fixture
def served(api: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """An API server that serves ClusterTopology."""
    return serve(api, kubectl)


@pytest.fixture(scope="module")
def served_once(real_api: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """The same, on a real API server that the tests of a module share."""
    return serve(real_api, kubectl)


@pytest.fixture
def installed(api: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """An API server with the whole base applied, and the RuntimeClass that a GPU cluster brings along."""
    return install(api, kubectl)


@pytest.fixture(scope="module")
def installed_once(real_api: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """The same, on a real API server that the tests of a module share."""
    return install(real_api, kubectl)
