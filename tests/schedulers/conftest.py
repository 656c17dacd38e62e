"""kube-scheduler beside a kube-apiserver of its own."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.schedulers import build, clusters, play, programs
from tests.support.api import ApiUnderTest
from tools.apiserver.build import BuildError


def unavailable(error: BuildError) -> NoReturn:
    """Skip, or fail where CI requires the schedulers."""
    if os.environ.get("TOPOSCOPE_REQUIRE_SCHEDULERS") == "1":
        pytest.fail(str(error), pytrace=False)
    pytest.skip(f"no scheduler: {error}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schedulers")


@pytest.fixture
def kube_scheduler(folder: Path) -> Iterator[ApiUnderTest]:
    with _kube_scheduler(folder) as api:
        yield api


@pytest.fixture
def gang_scheduler(folder: Path) -> Iterator[ApiUnderTest]:
    """With the feature gates of its own gangs."""
    with _kube_scheduler(folder, programs.GANGS_SERVED, (programs.GANGS,)) as api:
        yield api


@contextlib.contextmanager
def _kube_scheduler(folder: Path, served: tuple[str, ...] = (), gates: tuple[str, ...] = ()) -> Iterator[ApiUnderTest]:
    try:
        program = build.kube_scheduler()
    except BuildError as error:
        unavailable(error)
    with programs.api_server(folder, *served) as api, programs.kube_scheduler(program, api, folder, *gates):
        yield api


@pytest.fixture
def kueue(folder: Path) -> Iterator[ApiUnderTest]:
    try:
        installed = build.kueue()
    except BuildError as error:
        unavailable(error)
    with programs.api_server(folder) as api, programs.kueue(installed, api, folder):
        play.create(api, [*clusters.kueue_topologies(), clusters.limit_range()])
        yield api
