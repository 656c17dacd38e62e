"""A place of its own for what subjects write: left to themselves, they clear away nothing."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the whole session: subjects keep simulated machines from one case to the next."""
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(autouse=True)
def _in_scratch(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
