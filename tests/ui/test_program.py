"""The whole program: it prints its address, serves there, and ends at a signal."""

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.paths import ROOT
from tests.support.saved import cluster_topology, demo_nodes, saved
from toposcope.cli import COMMANDS, module_of


def test_the_program_prints_its_address_serves_and_ends_at_a_signal(tmp_path: Path) -> None:
    source = tmp_path / "cluster.json"
    source.write_text(saved([*demo_nodes(most=2), cluster_topology()]))
    command = [sys.executable, "-W", "error", "-m", "toposcope.cli.main", "ui", "--from", str(source), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
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
