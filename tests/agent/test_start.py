"""What an agent loads until its Node is labelled: imports are most of what its start costs, and half of its memory."""

import contextlib
import gc
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from toposcope.agent.gc_tuning import loading

LATER = {"http.server", "prometheus_client", "psutil"}
"""What the first request for metrics or health brings."""

NEVER = {"asyncio", "dataclasses", "inspect", "kubernetes", "msgspec", "rich", "simulator", "uuid", "yaml"}
"""The two in the standard library that dataclasses bring, and what others of our programs use."""


@pytest.mark.parametrize(
    ("loaded", "not_loaded"),
    [
        ("toposcope.cli.agent, toposcope.agent.run", LATER | NEVER | {"pynvml"}),
        (
            "toposcope.agent.nvml.process, toposcope.agent.nvml.worker",
            LATER | NEVER | {"http.client", "logging", "ssl", "traceback"},
        ),
    ],
    ids=["agent", "worker"],
)
def test_only_what_is_needed_is_loaded(loaded: str, not_loaded: set[str]) -> None:
    assert _told(f"import sys, {loaded}; print(*sorted({not_loaded!r} & set(sys.modules)))") == []


def test_the_collector_rests_while_modules_are_loaded_and_works_again_whatever_happened() -> None:
    seen = []
    with contextlib.suppress(ImportError), loading():
        seen.append(gc.isenabled())
        raise ImportError
    assert [*seen, gc.isenabled()] == [False, True]
    assert gc.get_freeze_count()


def _told(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.split()
