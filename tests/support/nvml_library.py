"""The NVML in C, or why a test is skipped."""

import os
from pathlib import Path

import pytest

from tools.libnvml.build import MissingCompilerError
from tools.libnvml.build import library as built


def library() -> Path:
    """The folder that holds it. TOPOSCOPE_REQUIRE_CC=1 turns the absence of a compiler into a failure."""
    try:
        return built()
    except MissingCompilerError as missing:
        if os.environ.get("TOPOSCOPE_REQUIRE_CC") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
