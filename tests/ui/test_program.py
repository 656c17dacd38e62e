"""The whole program: it prints its address, serves there, and ends at a signal."""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.api import wait_until
from tests.support.paths import ROOT
from tests.support.saved import cluster_topology, demo_nodes, saved
from toposcope.cli import COMMANDS, module_of


def test_program_prints_its_address_serves_and_ends_at_a_signal(tmp_path: Path) -> None:
    source = tmp_path / "cluster.json"
    source.write_text(saved([*demo_nodes(most=2), cluster_topology()]))
    command = [sys.executable, "-W", "error", "-m", "toposcope.cli.main", "ui", "--from", str(source), "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout
        assert program.stderr
        line = program.stdout.readline()
        assert line.startswith(f"{source} is served at http://127.0.0.1:"), program.stderr.read()
        where = urlsplit(line.split(" served at ")[1].split()[0])
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        connection.request("GET", "/api/node/gb200-01")
        assert json.loads(connection.getresponse().read())["gpus"] == 4
        connection.close()
        program.send_signal(signal.SIGINT)
        stderr = program.stderr.read()
        assert program.wait(20) == 0
    warnings = ("warning: the page of toposcope ui is not built", "warning: this installation has no page")
    assert [line for line in stderr.splitlines() if not line.startswith(warnings)] == []


PROGRAM = """
import sys, threading
from tests.ui.workers import misbehaving
from toposcope.ui.computing import Computing
from toposcope.ui.facts import Facts
from toposcope.ui.program import UiProgram, listening
from toposcope.ui.saved import EXPECTED, SavedSource
wake = threading.Event()
facts = Facts("files", EXPECTED, wake.set)
source = SavedSource([sys.argv[1]], facts)
computing = Computing(facts.snapshot, source.published, source.required, seconds=600.0, start=misbehaving)
listener = listening("127.0.0.1", 0)
port = listener.getsockname()[1]
UiProgram(source, facts, wake, computing=computing).serve(listener, started=lambda: print(port, flush=True))
"""


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_program_in_the_middle_of_a_question(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(saved([*demo_nodes(most=2), cluster_topology()]))
    command = [sys.executable, "-c", PROGRAM, str(file)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout
        port = int(program.stdout.readline())
        wait_until(lambda: _status(port, "/readyz") == 200, "the files have been read")
        assert _status(port, "/api/check", b'{"workload": "first"}') == 200
        (worker,) = _children(program.pid)
        handle = os.pidfd_open(worker)
        body = b'{"workload": "hang"}'
        head = "POST /api/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        with socket.create_connection(("127.0.0.1", port), timeout=20) as asking:
            asking.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            assert _status(port, "/healthz") == 200
            program.send_signal(number)
            program.wait(20)
        assert select.select([handle], [], [], 20)[0], "the worker ends with the program"
        os.close(handle)


def _status(port: int, path: str, body: bytes | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, file.read_text().split())
    return found


@pytest.mark.slow
def test_no_other_program_imports_a_web_framework() -> None:
    others = ", ".join(module_of(name) for name in COMMANDS if name != "ui")
    text = (
        "import importlib, sys\n"
        f"for name in '{others}'.split(', '): importlib.import_module(name)\n"
        "import toposcope.agent.run, toposcope.controller.run\n"
        "print(sorted({'starlette', 'uvicorn', 'anyio', 'h11', 'toposcope.ui'} & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["toposcope.ui.program", "toposcope.cli.tree"])
def test_start_imports_nothing_that_reads_workloads(module: str) -> None:
    """It is half of what the start of the page's server costs, and only its worker needs it."""
    heavy = {"toposcope.integrations.readings", "toposcope.placement.check", "toposcope.planning.whatif"}
    program = f"import sys, {module}; print(*sorted({heavy!r} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "\n"
