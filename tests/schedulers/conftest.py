"""kube-scheduler beside a kube-apiserver of its own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.schedulers import build, clusters, play, programs, versions
from tests.support.api import ApiUnderTest
from tests.support.programs import lacking
from tools.apiserver.build import BuildError


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
    with _kube_scheduler(folder, versions.SERVED, (versions.GATES,)) as api:
        yield api


@pytest.fixture
def job_gang_scheduler(gang_scheduler: ApiUnderTest, folder: Path) -> Iterator[ApiUnderTest]:
    """With the controller that makes PodGroups of Jobs."""
    try:
        program = build.kube_controller_manager()
    except BuildError as error:
        lacking("SCHEDULERS", error)
    with programs.controller_manager(program, gang_scheduler, folder, versions.GATES):
        yield gang_scheduler


@contextlib.contextmanager
def _kube_scheduler(folder: Path, served: tuple[str, ...] = (), gates: tuple[str, ...] = ()) -> Iterator[ApiUnderTest]:
    try:
        program = build.kube_scheduler()
    except BuildError as error:
        lacking("SCHEDULERS", error)
    with programs.api_server(folder, *served) as api, programs.kube_scheduler(program, api, folder, *gates):
        yield api


@pytest.fixture
def bare_kueue(folder: Path) -> Iterator[ApiUnderTest]:
    try:
        installed = build.kueue()
    except BuildError as error:
        lacking("SCHEDULERS", error)
    with programs.api_server(folder) as api, programs.kueue(installed, api, folder):
        yield api


@pytest.fixture
def kueue(bare_kueue: ApiUnderTest) -> ApiUnderTest:
    """With what every play needs."""
    play.create(bare_kueue, [*clusters.kueue_topologies(), clusters.limit_range()])
    return bare_kueue
