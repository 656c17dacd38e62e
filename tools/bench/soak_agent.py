"""A day of two agents: one whose hardware and API server misbehave, and one whose worker is killed again and again."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.bench.churn import call
from tools.bench.record import RecordedMachine, record
from tools.bench.report import Figure, Sample
from tools.bench.soak_verdict import hourly, verdict
from tools.bench.workspace import MeasurementError, Program, account, pod_environment, program
from toposcope.api.label_keys import GPUS, HOSTNAME
from toposcope.kube.requests import NODES
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.server import Tls
from toposcope.simulator.machine import identity
from toposcope.simulator.node_object import node_object

_PROFILE: Final = "dgx-h200"
_NODE: Final = "node-0"
_PATH: Final = f"{NODES}/{_NODE}"
_TURNS: Final = 60
"""In an hour."""
_KILLS: Final = 4

_Hour = Callable[[EmbeddedApiServer, Program, Path], int]
"""One hour of an agent's life; how many of its turns went well."""


def agent_figures(hours: int) -> Iterator[Figure]:
    """So many hours of each."""
    for name, live in (("with faults", _troubled), ("with a worker that is killed", _killed)):
        with TemporaryDirectory(prefix="toposcope-bench-") as folder:
            yield from _day(f"agent {name}, {hours} hours", Path(folder), live, hours)


def _day(what: str, folder: Path, live: _Hour, hours: int) -> Iterator[Figure]:
    account(folder)
    machine = record(_PROFILE, folder)
    fault = folder / "fault"
    looks, asked, well = [], [], 0
    tls = Tls(folder / "server.crt", folder / "server.key", folder / "ca.crt")
    with EmbeddedApiServer(tls=tls, history=100) as server:
        _create(server, 0)
        environment = _environment(folder, machine, fault, server)
        with program("soak_agent", environment, folder, "--node-name", _NODE, "--spread", "0") as running:
            running.word()
            for hour in range(hours):
                before = Counter(server.requests)
                well += live(server, running, fault)
                if not running.ask("turns", 1):
                    raise running.failure(f"it was not well again at the end of hour {hour}")
                looks.append(running.ask("look"))
                asked.append(hourly(before, Counter(server.requests)))
                _create(server, hour + 1)
    yield Figure(f"{what}, turns that went well", Sample((well,), ""))
    yield from verdict(what, looks, asked)
    if live is _troubled:  # the other has a new worker in every hour
        worker = [look | {"rss": look["worker"], "sizes": {}} for look in looks]
        yield from verdict(f"{what}, its worker", worker, asked)


def _environment(folder: Path, machine: RecordedMachine, fault: Path, server: EmbeddedApiServer) -> dict[str, str]:
    return pod_environment(folder, "127.0.0.1", server.url.rpartition(":")[2]) | {
        "BENCH_TAPE": str(machine.tape),
        "BENCH_SYSFS": str(machine.sysfs),
        "BENCH_FAULT": str(fault),
    }


def _create(server: EmbeddedApiServer, life: int) -> None:
    """Make the Node, or make it anew under another uid: the autoscaler had it replaced."""
    call(server, "DELETE", _PATH)
    server.load([node_object(_NODE, {HOSTNAME: _NODE}, 8, uid=str(identity("soak", _NODE, life)))])


def _troubled(server: EmbeddedApiServer, running: Program, fault: Path) -> int:
    """Links and GPUs break and recover, the API server refuses or is away, and somebody edits our labels."""
    well: int = running.ask("turns", 10)
    for broken in ("link", "gpu"):
        fault.write_text(broken, encoding="ascii")
        well += running.ask("turns", 8)
        fault.unlink()
        well += running.ask("turns", 5)
    call(server, "PATCH", _PATH, {"metadata": {"labels": {GPUS: "64"}}})
    well += running.ask("turns", 12)
    for code in (500, 429, 503):
        server.faults.reject(code, 2)
    # The Node is read every ten minutes: that is what is refused.
    well += running.ask("turns", _TURNS - 49)
    server.faults.stop_rejecting()
    return well + int(running.ask("turns", 1))


def _killed(_server: EmbeddedApiServer, running: Program, _fault: Path) -> int:
    """The driver takes the worker down four times in an hour; the turn after that fails, and the next is well."""
    well = 0
    for _ in range(_KILLS):
        well += running.ask("turns", _TURNS // _KILLS - 1)
        worker = running.ask("worker")
        if worker is None:
            raise MeasurementError("the agent has no worker to kill after turns that went well")
        os.kill(worker, signal.SIGKILL)
        well += running.ask("turns", 1)
    return well + int(running.ask("turns", 1))
