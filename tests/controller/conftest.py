"""What tests of the controller share."""

from collections.abc import Iterator

import pytest
from tests.controller.published_site import Site
from tests.support.api import ApiUnderTest, Clients
from tests.support.cluster import History
from tests.support.controller import share_crd
from tests.support.publishing import Time
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.server import ServerFaults


@pytest.fixture
def time() -> Time:
    """The monotonic time of publishers and reconcilers, at 0."""
    return Time()


@pytest.fixture
def faults(embedded_server: EmbeddedApiServer) -> ServerFaults:
    """Those of the embedded API server, which `api` is in tests marked `embedded_api`."""
    return embedded_server.faults


@pytest.fixture
def site(api: ApiUnderTest, clients: Clients) -> Iterator[Site]:
    """Publishers of which KAI's and Kueue's write new levels once they have been wanted for 30 s."""
    site = Site(api, clients())
    yield site
    site.release()


@pytest.fixture
def prompt_site(api: ApiUnderTest, clients: Clients) -> Iterator[Site]:
    """Publishers that write new levels at once."""
    site = Site(api, clients(), delay=0.0)
    yield site
    site.release()


@pytest.fixture
def cluster_topologies(api: ApiUnderTest) -> None:
    """Have ClusterTopologies served, as passes of the controller need it."""
    share_crd(api)


@pytest.fixture
def history() -> History:
    """What a controller says of nodes, look by look."""
    return History()
