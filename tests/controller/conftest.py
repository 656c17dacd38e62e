"""What tests of the controller share."""

import pytest
from tests.support.publishing import Time
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.server import Faults


@pytest.fixture
def time() -> Time:
    """The monotonic time of publishers and reconcilers, at 0."""
    return Time()


@pytest.fixture
def faults(embedded_server: EmbeddedApiServer) -> Faults:
    """Those of the embedded API server, which `api` is in tests marked `embedded_api`."""
    return embedded_server.faults
