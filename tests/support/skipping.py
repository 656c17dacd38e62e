"""What a test does where something that it needs is not there."""

import os
from typing import NoReturn

import pytest


def lacking(what: str, why: object) -> NoReturn:
    """Skip the test, or fail it where TOPOSCOPE_REQUIRE_`what` is 1, as in CI."""
    if os.environ.get(f"TOPOSCOPE_REQUIRE_{what}") == "1":
        pytest.fail(str(why), pytrace=False)
    pytest.skip(str(why))
