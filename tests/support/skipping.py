"""What a test does where something that it needs is not there."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from tools.libnvml.build import MissingCompilerError, library


def lacking(what: str, why: object) -> NoReturn:
    """Skip the test, or fail it where TOPOSCOPE_REQUIRE_`what` is 1, as in CI."""
    if os.environ.get(f"TOPOSCOPE_REQUIRE_{what}") == "1":
        pytest.fail(str(why), pytrace=False)
    pytest.skip(str(why))


def nvml_in_c() -> Path:
    """The folder of the NVML in C. TOPOSCOPE_REQUIRE_CC=1 turns the absence of a compiler into a failure."""
    try:
        return library()
    except MissingCompilerError as missing:
        lacking("CC", missing)
