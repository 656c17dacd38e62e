"""What an agent loads until its Node is labelled: imports are most of what its start costs, and half of its memory."""

import contextlib
import gc
import importlib.util
import subprocess
import sys

import pytest
from toposcope.agent.gc_tuning import loading

LATER = {"toposcope.agent.collector", "toposcope.telemetry.families", "toposcope.telemetry.handler"}
"""What the first request for metrics or health loads."""

NEVER = {
    *("asyncio", "dataclasses", "inspect", "kubernetes", "msgspec", "multiprocessing", "rich", "subprocess", "uuid"),
    *("html", "http.server", "lzma", "mimetypes", "prometheus_client", "psutil"),
    *("yaml", "toposcope.controller", "toposcope.simulator", "toposcope.snapshot"),
}
"""Costly modules of the standard library, and what only the other programs use."""

AGENT = LATER | NEVER | {"pynvml", "toposcope.agent.nvml.worker", "toposcope.agent.probe", "toposcope.agent.sysfs"}
WORKER = LATER | NEVER | {"http.client", "logging", "pickle", "ssl", "toposcope.kube", "traceback"}


@pytest.mark.parametrize(
    ("loaded", "not_loaded"),
    [
        pytest.param(
            "toposcope.cli.agent, toposcope.agent.run",
            AGENT,
            id="agent",
        ),
        pytest.param(
            "toposcope.agent.run, " + ", ".join(sorted(LATER)),
            NEVER,
            id="agent-that-is-scraped",
        ),
        pytest.param(
            "toposcope.agent.nvml.process, toposcope.agent.nvml.worker",
            WORKER,
            id="worker",
        ),
    ],
)
def test_only_what_is_needed_is_loaded(loaded: str, not_loaded: set[str]) -> None:
    program = f"import sys, {loaded}; print(*sorted({not_loaded!r} & set(sys.modules)))"
    assert _output(program) == []


@pytest.mark.parametrize("name", sorted(AGENT | WORKER))
def test_forbidden_modules_exist(name: str) -> None:
    """A name that was moved would never be found loaded."""
    assert importlib.util.find_spec(name)


def test_garbage_collector_is_off_only_while_modules_are_loaded() -> None:
    enabled = []
    with contextlib.suppress(ImportError), loading():
        enabled.append(gc.isenabled())
        raise ImportError
    enabled.append(gc.isenabled())
    assert enabled == [False, True]
    assert gc.get_freeze_count()


def _output(program: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()
