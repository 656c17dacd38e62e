"""`toposcope node-endpoint` as the container runs it."""

import re
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.paths import ROOT
from toposcope.telemetry.node_endpoint import EndpointLimits

FILES = EndpointLimits().files
SERVING = re.compile(r"serving .* on port (\d+)$")


@contextmanager
def running(file: Path, soft: int, hard: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The program under a limit of open files, and what it logs until it serves."""
    program = [sys.executable, "-m", "toposcope.cli.main", "node-endpoint", f"--file={file}", "--port=0"]
    shell = ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh", *program]
    with subprocess.Popen(shell, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline().rstrip()]
        while not SERVING.search(lines[-1]):
            assert lines[-1], lines
            lines.append(process.stderr.readline().rstrip())
        try:
            yield process, lines
        finally:
            process.terminate()
            assert process.wait(10) == 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "topology.json"
    file.write_text('{"version":1,"node":"n1"}')
    return file


def test_document_of_the_file_is_served(file: Path) -> None:
    with running(file, 1024, FILES) as (_, lines):
        found = SERVING.search(lines[-1])
        assert found
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/v1/topology", timeout=10) as answer:
            assert answer.read() == b'{"version":1,"node":"n1"}'


def test_program_may_open_a_file_for_each_connection(file: Path) -> None:
    with running(file, 1024, 2 * FILES) as (process, lines):
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert limits == (FILES, 2 * FILES)
        assert len(lines) == 1


def test_fewer_connections_are_served_where_fewer_files_may_be_open(file: Path) -> None:
    with running(file, 1024, FILES - 48) as (process, lines):
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert limits == (FILES - 48, FILES - 48)
        warning, _ = lines
        assert warning.endswith(
            "at most 2000 connections at once: the process may open only 3344 files; "
            "raise the container runtime's limit (LimitNOFILE)"
        )
