"""The API servers that tests run against."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from tests.support.api import ApiUnderTest
from tests.support.cleaning import clean
from tests.support.real_apiserver import RealApiServer, UnavailableError, find_binaries
from tests.support.scratch import use_memory
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.simulator.apiserver import EmbeddedApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


use_memory()

THOROUGH = (
    "tests/chart/test_release.py",
    "tests/controller/cases",
    "tests/controller/test_failover.py",
    "tests/explain/test_live.py",
    "tests/docs/test_integrations.py",
    "tests/image",
    "tests/monitoring/test_live.py",
    "tests/ui/browser",
)
"""Whole programs, browsers, Prometheus, helm, images and other projects' cases: almost half of the time. A plain
`make test` leaves them out, so that it is run often; CI runs them all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is `THOROUGH`."""
    for item in items:
        if item.nodeid.startswith(THOROUGH):
            item.add_marker(pytest.mark.thorough)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that uses `api` against both servers, those marked `real_api` against the real one."""
    if "api" in metafunc.fixturenames:
        only_real = metafunc.definition.get_closest_marker("real_api") is not None
        metafunc.parametrize("api", ["real"] if only_real else ["embedded", "real"], indirect=True)


@pytest.fixture(scope="session")
def real_server() -> Iterator[RealApiServer]:
    """Start a kube-apiserver once; TOPOSCOPE_REQUIRE_REAL_API=1 turns its absence into a failure."""
    try:
        binaries = find_binaries()
    except UnavailableError as error:
        if os.environ.get("TOPOSCOPE_REQUIRE_REAL_API") == "1":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    with RealApiServer.start(binaries) as server:
        yield server


@pytest.fixture
def embedded_server() -> Iterator[EmbeddedApiServer]:
    with EmbeddedApiServer() as server:
        yield server


@pytest.fixture
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiUnderTest]:
    """An API server with nothing in it; see `ApiUnderTest`."""
    kubeconfig = tmp_path / "kubeconfig"
    if request.param == "embedded":
        embedded: EmbeddedApiServer = request.getfixturevalue("embedded_server")
        embedded.write_kubeconfig(kubeconfig)
        yield ApiUnderTest("embedded", embedded.url, kubeconfig, embedded=embedded)
        return
    real: RealApiServer = request.getfixturevalue("real_server_of_module")
    real.write_kubeconfig(kubeconfig)
    under_test = ApiUnderTest(
        *("real", real.url, kubeconfig),
        ca_file=real.ca_file,
        admin_token=real.admin_token,
        module=request.module.__name__,
    )
    yield under_test
    clean(under_test)


@pytest.fixture(scope="module")
def real_server_of_module(
    real_server: RealApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealApiServer]:
    """The real server, without the CRDs that tests of a module share once its last test is over."""
    yield real_server
    kubeconfig = tmp_path_factory.mktemp("real") / "kubeconfig"
    clean(
        ApiUnderTest(
            "real", real_server.url, kubeconfig, ca_file=real_server.ca_file, admin_token=real_server.admin_token
        ),
        unshare=True,
    )


@pytest.fixture(scope="module")
def real_api(real_server: RealApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiUnderTest]:
    """A real API server that the tests of one module share; nothing else of the module may ask for `api`.

    For what takes long to come into force (CRDs, RBAC, admission policies) and is only looked at by the tests.
    """
    kubeconfig = tmp_path_factory.mktemp("real") / "kubeconfig"
    real_server.write_kubeconfig(kubeconfig)
    under_test = ApiUnderTest(
        "real", real_server.url, kubeconfig, ca_file=real_server.ca_file, admin_token=real_server.admin_token
    )
    yield under_test
    clean(under_test)


@pytest.fixture
def clients(api: ApiUnderTest) -> Iterator[Callable[[], ApiClient]]:
    """Production clients of `api`, closed at the end of the test."""
    with contextlib.ExitStack() as stack:

        def make() -> ApiClient:
            client = ApiClient(load(str(api.kubeconfig)))
            stack.callback(client.close)
            return client

        yield make
