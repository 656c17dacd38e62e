"""The API servers that tests run against."""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.support.api import ApiUnderTest, Clients
from tests.support.cleaning import clean
from tests.support.paths import use_memory
from tests.support.threads import still_running
from tools.apiserver.build import LIMITED_TO
from tools.apiserver.server import SHARED, RealApiServer, ServerError, UnavailableError, find_binaries
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.simulator.apiserver import EmbeddedApiServer

use_memory()
# Tests start the programs hundreds of times: what Python compiles is kept, also where the environment says otherwise.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; the programs would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same cases everywhere, however busy the machine is; `make fuzz` looks for new ones.
settings.register_profile("suite", deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
settings.load_profile("suite")
MAX_NAME_CHARACTERS = 70
"""Of a test's function."""


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: tests wait for their servers for a seventh of the time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Let `make test` build no more than it says before it starts: a first run would stand still for minutes."""
    if config.option.markexpr == "not slow":
        LIMITED_TO.update({"apiserver", "crds", "libnvml"})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was skipped and why."""
    skipped = terminalreporter.getreports("skipped")
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    by_reason = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
    terminalreporter.write_line(f"skipped {len(skipped)}" + (f" ({by_reason})" if by_reason else ""))


def pytest_collection_finish() -> None:
    """Take what collection made out of the garbage collector's sight: a collection takes milliseconds then."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the module that leaves a thread, socket or file, and not a later one in which it is come across.

    Modules of the marker `slow` are left out: playwright's threads, for one, stay for the session.
    """
    before = set(threading.enumerate())
    yield
    gc.collect()
    if request.node.get_closest_marker("slow") is None:
        left = still_running(set(threading.enumerate()) - before)
        assert not left, "\n".join(left)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A program that a test runs in this process logs to a stderr that is captured for that test alone."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse names that are sentences, and run some tests on two API servers.

    The suite that holds the embedded API server to a real one runs on both; all other tests run on one, see `api`.
    """
    name = metafunc.definition.name
    if len(name) > MAX_NAME_CHARACTERS:
        pytest.fail(f"{name} has {len(name)} characters, at most {MAX_NAME_CHARACTERS} are allowed", pytrace=False)
    if "api" in metafunc.fixturenames and metafunc.definition.nodeid.startswith("tests/simulator/apiserver/"):
        only_real = metafunc.definition.get_closest_marker("real_api") is not None
        metafunc.parametrize("api", ["real"] if only_real else ["embedded", "real"], indirect=True)


@pytest.fixture(scope="session")
def started_server() -> Iterator[RealApiServer | UnavailableError]:
    """A kube-apiserver, or why there is none; TOPOSCOPE_REQUIRE_REAL_API=1 turns its absence into a failure."""
    if SHARED:
        yield SHARED[0]
        return
    try:
        binaries = find_binaries()
    except UnavailableError as error:
        if os.environ.get("TOPOSCOPE_REQUIRE_REAL_API") == "1":
            pytest.fail(str(error), pytrace=False)
        yield error
        return
    with RealApiServer(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def real_server(started_server: RealApiServer | UnavailableError) -> RealApiServer:
    """The kube-apiserver of this session."""
    if isinstance(started_server, UnavailableError):
        pytest.skip(str(started_server))
    return started_server


@pytest.fixture
def embedded_server() -> Iterator[EmbeddedApiServer]:
    with EmbeddedApiServer() as server:
        yield server


@pytest.fixture
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiUnderTest]:
    """An empty API server: a kube-apiserver where there is one, else the embedded one.

    A test marked `real_api` needs the former, one marked `embedded_api` the latter.
    """
    if _wants_embedded(request):
        yield ApiUnderTest.of_embedded(request.getfixturevalue("embedded_server"), tmp_path)
        return
    kubeconfig = tmp_path / "kubeconfig"
    real: RealApiServer = request.getfixturevalue("real_server_of_module")
    real.write_kubeconfig(kubeconfig)
    under_test = ApiUnderTest.of_real(real, kubeconfig, request.module.__name__)
    yield under_test
    try:
        _check_or_restart(real)
    finally:
        clean(under_test)


def _check_or_restart(server: RealApiServer) -> None:
    """Say how a server ended in the middle of a test, there; the next test has one again."""
    if server in SHARED:  # a fork does not hear how its parent's children end
        return
    try:
        server.check()
    except ServerError:
        server.start()
        raise


def _wants_embedded(request: pytest.FixtureRequest) -> bool:
    if hasattr(request, "param"):
        return bool(request.param == "embedded")
    if request.node.get_closest_marker("embedded_api"):
        return True
    if request.node.get_closest_marker("real_api"):
        return False
    return isinstance(request.getfixturevalue("started_server"), UnavailableError)


@pytest.fixture(scope="module")
def real_server_of_module(
    real_server: RealApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealApiServer]:
    """The real server, without the CRDs that tests of a module share once its last test is over."""
    yield real_server
    kubeconfig = tmp_path_factory.mktemp("real") / "kubeconfig"
    clean(ApiUnderTest.of_real(real_server, kubeconfig), is_module_over=True)


@pytest.fixture(scope="module")
def real_api(real_server: RealApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiUnderTest]:
    """A real API server that the tests of one module share; nothing else of the module may ask for `api`.

    For what takes long to come into force (CRDs, RBAC, admission policies) and is only looked at by the tests.
    """
    kubeconfig = tmp_path_factory.mktemp("real") / "kubeconfig"
    real_server.write_kubeconfig(kubeconfig)
    under_test = ApiUnderTest.of_real(real_server, kubeconfig)
    yield under_test
    try:
        _check_or_restart(real_server)
    finally:
        clean(under_test)


@pytest.fixture
def clients(api: ApiUnderTest) -> Iterator[Clients]:
    """Production clients of `api`, closed at the end of the test."""
    with contextlib.ExitStack() as stack:

        def make() -> ApiClient:
            client = ApiClient(load(str(api.kubeconfig)))
            stack.callback(client.close)
            return client

        yield make
