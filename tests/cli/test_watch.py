"""`--watch`: in a process of its own, into a pipe and on a terminal."""

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Command
from tests.support.api import MERGE, NODES, ApiUnderTest, wait_until
from tests.support.paths import CRD, ROOT
from tests.support.saved import cluster_topology, demo_nodes, pod
from toposcope.api.cluster_topology import PATH
from toposcope.simulator.apiserver import EmbeddedApiServer

CHANGE = {"spec": {"unschedulable": True}, "metadata": {"labels": {"cloud.google.com/gce-topology-subblock": None}}}


class Watching:
    """A command that runs, and what it has printed since the last `fresh`."""

    def __init__(self, *words: object, terminal: bool) -> None:
        self._end, other = pty.openpty() if terminal else os.pipe()
        if terminal:
            termios.tcsetwinsize(other, (24, 80))
        os.set_blocking(self._end, False)
        command = [sys.executable, "-W", "error", "-m", "toposcope.cli.main", *map(str, words), "--watch"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=other,
            stderr=other,
            env=environ,
        )
        os.close(other)
        self.text = ""

    def _read(self) -> str:
        with suppress(BlockingIOError, OSError):  # nothing more; the end of a terminal is an error
            while piece := os.read(self._end, 1 << 16):
                self.text += piece.decode()
        return self.text

    def shows(self, *parts: str) -> None:
        self.text = ""
        wait_until(lambda: all(part in self._read() for part in parts), f"it shows {parts}", 120)

    def interrupt(self) -> int:
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(120)
        assert "Traceback" not in self._read(), self.text
        return code

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiUnderTest]:
    with EmbeddedApiServer(bookmark_interval=0.5) as server:
        api = ApiUnderTest.of_embedded(server, tmp_path)
        api.install_crd(yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader))
        server.load([*demo_nodes(), {**pod("a", None, 64), "status": {"phase": "Pending"}}])
        api.create(PATH, cluster_topology())
        yield api


@contextmanager
def watching(api: ApiUnderTest, *words: str, terminal: bool = False) -> Iterator[Watching]:
    with closing(Watching(*words, "--kubeconfig", api.kubeconfig, terminal=terminal)) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param("status"),
        pytest.param("tree", marks=pytest.mark.slow),
        pytest.param("nodes", marks=pytest.mark.slow),
        pytest.param("levels", marks=pytest.mark.slow),
        pytest.param("explain pod/a -n train"),
        pytest.param("nodes -o yaml", marks=pytest.mark.slow),
    ],
)
def test_watch_prints_changes_and_outlives_the_api_server(words: str, api: ApiUnderTest, toposcope: Command) -> None:
    assert api.embedded
    once = toposcope(f"{words} --kubeconfig {api.kubeconfig}", code=None).out
    with watching(api, *words.split()) as found:
        found.shows(once)
        code, answer = api.request("PATCH", f"{NODES}/gb200-01", CHANGE, content_type=MERGE)
        assert code == 200, answer
        changed = toposcope(f"{words} --kubeconfig {api.kubeconfig}", code=None).out
        found.shows("---", changed)
        api.embedded.faults.reject(503, times=1_000_000)
        api.embedded.faults.cut_watches()
        found.shows("warning: no answer since ", "showing the last known state: 503")
        api.embedded.faults.stop_rejecting()
        found.shows("the API server answers again")
        assert found.interrupt() == 130


def test_terminal_is_redrawn_and_says_what_does_not_fit(api: ApiUnderTest) -> None:
    with watching(api, "nodes", terminal=True) as found:
        found.shows("\x1b[H\x1b[2J", "gb200-01", "... and 10 more lines")
        api.request("PATCH", f"{NODES}/gb200-01", CHANGE, content_type=MERGE)
        found.shows("\x1b[H\x1b[2J", "cordoned")
        assert found.interrupt() == 130


def test_command_that_cannot_be_watched_is_refused(api: ApiUnderTest, toposcope: Command) -> None:
    assert "give one or the other" in toposcope("status --watch --from -", code=2).err
    assert api.embedded
    api.embedded.faults.reject(503, times=1_000_000)
    ran = toposcope(f"status --watch --kubeconfig {api.kubeconfig}", code=2)
    assert ran.err == "toposcope status: 503 ServiceUnavailable: the server is currently unable to handle the request\n"
