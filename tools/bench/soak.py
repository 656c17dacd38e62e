"""A day in minutes: 24 hours of a 2,000-node cluster that never rests, under a virtual clock; and of an agent.

The programs are the production ones with all their threads and sockets, in processes of their own; only the time is
made (see `virtual_time`). After each hour they are looked at: resident memory, open files, threads, requests of
that hour, and the number of entries of every container that they can reach. What grows from hour to hour is a leak.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tools.bench.churn import JOBSET_CRD, STEPS, Churn
from tools.bench.report import Figure, Sample
from tools.bench.soak_agent import agent_figures
from tools.bench.soak_verdict import hourly, verdict
from tools.bench.workspace import Program, account, pod_environment, program
from toposcope.simulator import manifests
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.server import Tls

_NODES: Final = 2_000
_HISTORY: Final = 2_000
"""Changes that the server remembers: an hour has more."""
_DEBOUNCE: Final = 2.0
_STEP: Final = 3600.0 / STEPS - _DEBOUNCE
_PATIENCE: Final = 30.0
_AGREE: Final = 200
_MOMENT: Final = 0.05
_NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "toposcope-system"}}
_FLAGS: Final = ("--leader-elect", "--lease-duration", "300", "--debounce", "1", "--metrics-port", "0")
"""A Lease that outlasts a step of the clock."""


def soak_figures(*, quick: bool) -> Iterator[Figure]:
    """24 hours (6 when quick) of the controller, then as many of two agents."""
    hours = 6 if quick else 24
    began = time.monotonic()
    looks, asked = _controller(hours)
    yield from verdict(f"controller, {hours} hours of {_NODES:,} nodes", looks, asked)
    yield Figure("  real time", Sample((time.monotonic() - began,), "s"))
    yield from agent_figures(hours)


def _controller(hours: int) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
    """A look after each hour, and the requests of that hour by verb and kind."""
    looks, asked = [], []
    with TemporaryDirectory(prefix="toposcope-bench-") as name:
        folder = Path(name)
        account(folder)
        tls = Tls(folder / "server.crt", folder / "server.key", folder / "ca.crt")
        with EmbeddedApiServer(tls=tls, history=_HISTORY) as server:
            server.load([manifests.cluster_topology_crd(), manifests.grove_binding_crd(), manifests.kai_topology_crd()])
            server.load([JOBSET_CRD, _NAMESPACE])
            churn = Churn(server, _NODES, random.Random(0))  # noqa: S311 - the same cluster each time
            port = server.url.rpartition(":")[2]
            with program("soak_controller", pod_environment(folder, "127.0.0.1", port), folder, *_FLAGS) as running:
                running.word()
                for hour in range(hours):
                    before = Counter(server.requests)
                    _hour(churn, running, hour)
                    looks.append(running.ask("look"))
                    asked.append(hourly(before, Counter(server.requests)))
    return looks, asked


def _hour(churn: Churn, running: Program, hour: int) -> None:
    for step in range(STEPS):
        churn.step(hour, step)
        _advance(running, _DEBOUNCE)
        _advance(running, _STEP)
    seen = None
    for _ in range(_AGREE):
        seen = churn.status().get("nodes")
        if seen == churn.nodes:
            return
        _advance(running, _DEBOUNCE)
        time.sleep(_MOMENT)
    raise running.failure(f"the status counts {seen} nodes and there are {churn.nodes}")


def _advance(running: Program, seconds: float) -> None:
    if not running.ask("advance", seconds, _PATIENCE):
        raise running.failure(f"its loop did not come to rest within {_PATIENCE:.0f} s")
