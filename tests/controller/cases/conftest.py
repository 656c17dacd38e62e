"""The world of the cases, once a module and API server: its CRDs take longer to be served than a case to be played."""

import contextlib
from collections.abc import Iterator

import pytest
from tests.controller.cases.world import World
from tests.support.api import ApiUnderTest
from tools.apiserver.server import RealApiServer, UnavailableError
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.simulator.apiserver import EmbeddedApiServer


@pytest.fixture(scope="module")
def world(
    started_server: RealApiServer | UnavailableError, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    kubeconfig = tmp_path_factory.mktemp("cases") / "kubeconfig"
    with contextlib.ExitStack() as stack:
        if isinstance(started_server, UnavailableError):
            embedded = stack.enter_context(EmbeddedApiServer())
            api = ApiUnderTest.of_embedded(embedded, kubeconfig.parent)
        else:
            started_server.write_kubeconfig(kubeconfig)
            api = ApiUnderTest.of_real(started_server, kubeconfig)
        made = World(api, stack.enter_context(contextlib.closing(ApiClient(load(str(kubeconfig))))))
        stack.callback(made.close)
        yield made


@pytest.fixture
def at(world: World) -> Iterator[World]:
    """The world with nothing in it but its CRDs."""
    yield world
    world.end()
