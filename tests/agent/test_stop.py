"""A signal ends the agent at once, whatever the driver does meanwhile."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.run import _run_forever


class HangingLibrary:
    """An NVML whose first call never returns; by then Kubernetes has sent the agent a SIGTERM.

    The first call comes with the first probe, when the agent handles signals.
    """

    def __getattr__(self, name: str) -> Callable[..., None]:
        return self._hang

    def _hang(self, *_: Any) -> None:
        os.kill(os.getppid(), signal.SIGTERM)
        signal.pause()


class Agent:
    """Probes once when it is synced, and would go on for ever."""

    def __init__(self, probe: ProbeProcess) -> None:
        self._probe = probe

    def sync(self) -> None:
        self._probe.probe()
        raise AssertionError("the library never answers")


class Watches:
    """Watches that see nothing."""

    def start(self, node_changed: Callable[[], object], plan_changed: Callable[[object], object]) -> None: ...


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Puts the handlers of signals back: the agent sets its own."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_sigterm_ends_an_agent_whose_nvml_call_hangs(tmp_path: Path) -> None:
    with ProbeProcess(HangingLibrary, tmp_path, step_seconds=30.0) as probe:
        _run_forever(Agent(probe), probe, Watches())  # type: ignore[arg-type]
        worker = probe.worker
        assert worker is not None
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
