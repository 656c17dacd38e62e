"""What tests of the controller share."""

import pytest

from tests.support.publishing import Time


@pytest.fixture
def time() -> Time:
    """The monotonic time of publishers and reconcilers, at 0."""
    return Time()
