"""Certificates for servers with TLS."""

from pathlib import Path

import pytest

from tests.support.certificates import Certificates, make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Where a test writes its kubeconfig."""
    return tmp_path / "config"
