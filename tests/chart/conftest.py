"""The chart as `make chart` copies it."""

import shutil
from pathlib import Path

import pytest

from tests.manifests import conftest as of_manifests
from tests.support.paths import MANIFESTS

kubectl = of_manifests.kubectl


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the files that the chart links to."""
    folder = tmp_path_factory.mktemp("chart") / "toposcope"
    shutil.copytree(MANIFESTS / "chart", folder)
    return folder
