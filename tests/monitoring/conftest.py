"""Prometheus and its tools, or why a test is skipped."""

import shutil

import pytest
from tests.support.programs import lacking


def _program(name: str) -> str:
    """The path of a program; TOPOSCOPE_REQUIRE_PROMETHEUS=1 turns its absence into a failure."""
    path = shutil.which(name)
    if path is None:
        lacking("PROMETHEUS", f"no {name} on PATH (Debian: apt-get install prometheus)")
    return path


@pytest.fixture(scope="session")
def promtool() -> str:
    return _program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> str:
    return _program("prometheus")
