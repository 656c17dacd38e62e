"""What an agent loads until its Node is labelled: imports are most of what its start costs, and half of its memory."""

import contextlib
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from agent.later import LATER, put_off
from agent.loading import loading

REQUESTED = {"http.server", "prometheus_client", "psutil"}
"""What the first request for metrics or health brings."""

NEVER = {"asyncio", "dataclasses", "inspect", "kubernetes", "msgspec", "rich", "simulator", "uuid", "yaml"}
"""The two in the standard library that dataclasses bring, and what others of our programs use."""


@pytest.mark.parametrize(
    ("loaded", "not_loaded"),
    [
        ("cli.agent, agent.run", REQUESTED | NEVER | {"pynvml"}),
        ("agent.launch, agent.worker_process", REQUESTED | NEVER | {"http.client", "logging", "ssl", "traceback"}),
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


_AS_AN_AGENT = """
import sys, argparse
from cli.formatter import Formatter
import cli.agent
cli.agent.add_arguments(argparse.ArgumentParser(formatter_class=Formatter))
from agent.later import LATER, put_off
put_off()
import agent.run, agent.worker_process, pynvml
"""
"""What both processes of an agent load, in one."""


def _told(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    return done.stdout.split()


def test_what_is_put_off_is_not_executed_by_anything_that_an_agent_loads() -> None:
    # In some versions of Python pathlib wants a URL's ipaddress, and that is loaded before.
    waiting = _told(f"{_AS_AN_AGENT}\nprint(*(name for name in LATER if type(sys.modules[name]).__name__ == '_Later'))")
    assert set(LATER) - set(waiting) <= {"ipaddress"}


def test_what_is_put_off_is_there_once_it_is_used() -> None:
    program = f"""{_AS_AN_AGENT}
import shutil, traceback
from subprocess import run
try:
    raise ValueError
except ValueError:
    print(traceback.format_exc().split()[-1], shutil.which("sh") is not None, callable(run), hasattr(shutil, "no_such"))
print(type(shutil).__name__, type(traceback).__name__)
"""
    assert _told(program) == ["ValueError", "True", "True", "False", "module", "module"]


def test_threads_that_use_it_at_once_all_get_the_whole_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_load.py").write_text("import begun\nbegun.told.wait(10)\nfound = 'all of it'\n")
    begun = ModuleType("begun")
    begun.told = threading.Event()  # type: ignore[attr-defined]  # what the module above looks at
    monkeypatch.setitem(sys.modules, "begun", begun)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("agent.later.LATER", ("slow_to_load",))
    put_off()
    module = sys.modules.pop("slow_to_load")
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(getattr, module, "found") for _ in range(4)]
        begun.told.set()
        assert {each.result() for each in asked} == {"all of it"}
