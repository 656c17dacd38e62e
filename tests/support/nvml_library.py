"""The NVML in C, or why a test is skipped."""

from pathlib import Path

from tests.support.skipping import lacking
from tools.libnvml.build import MissingCompilerError
from tools.libnvml.build import library as built


def library() -> Path:
    """The folder that holds it. TOPOSCOPE_REQUIRE_CC=1 turns the absence of a compiler into a failure."""
    try:
        return built()
    except MissingCompilerError as missing:
        lacking("CC", missing)
