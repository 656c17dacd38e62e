"""What the order of ranks is worth: an all-reduce by gloo over two racks.

Eight network namespaces stand for eight nodes, four behind each of two bridges. Between the bridges
are 1 ms and 1 Gbit/s each way (`rack_link`); within a rack only the CPU limits. The same processes
take turns with the order of `toposcope rank` and with orders by host name: names that alternate
between the racks, as round-robin provisioning gives them, and names drawn at random.

It needs root, and a Python with torch: TOPOSCOPE_TORCH_PYTHON=/path/to/python.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from tools.bench import rack_link
from tools.bench.report import Figure, Peer, Sample
from tools.bench.workspace import MeasurementError
from toposcope.rank import Member, ordered

PYTHON_VARIABLE: Final = "TOPOSCOPE_TORCH_PYTHON"
OURS: Final = "by rack"
ALTERNATING: Final = "by host name, racks alternate"
_RANDOM: Final = "by host name, drawn at random"
_NODES: Final = 8
_RACKS: Final = ("rack-0", "rack-1")
_HUB: Final = "rings-hub"
_PORT: Final = 29_600
_PATIENCE_SECONDS: Final = 600
_WORKER: Final = Path(__file__).with_name("ring_worker.py")
_IP: Final = "/usr/sbin/ip"


def rings_figures(*, quick: bool) -> Iterator[Figure]:
    """All-reduce of 16 MiB by eight processes; nothing without torch or without root.

    Raises MeasurementError.
    """
    python = os.environ.get(PYTHON_VARIABLE, "")
    if not python or os.geteuid() != 0:
        return
    orders = rank_orders(seeds=range(1 if quick else 3))
    plan = {"orders": orders, "repetitions": 3 if quick else 20, "mebibytes": 16}
    with _network():
        measured = _all_reduce(python, plan)

    ours = measured[OURS]
    for name, others in measured.items():
        if name == OURS:
            continue
        peer = Peer(OURS, Sample(tuple(ours), "ms"))
        yield Figure(f"all-reduce {name}", Sample(tuple(others), "ms"), peers=(peer,))
        ratios = [other / own for other, own in zip(others, ours, strict=True)]
        yield Figure("  times as long, a turn", Sample(tuple(ratios), ""))


def rank_orders(seeds: Sequence[int]) -> dict[str, list[int]]:
    """Numbers of nodes in the order of their ranks; even numbers are in one rack, odd in the other.

    Ours is what `toposcope rank` makes of the alternating names.
    """
    pods = []
    for number in range(_NODES):
        path = (("rack", _rack_of(number)), ("host", f"n{number}"))
        pods.append(Member(number, f"n{number}", _address(number), 1, path))
    orders = {
        OURS: [pod.old_rank for pod in ordered(pods)],
        ALTERNATING: list(range(_NODES)),
    }
    for seed in seeds:
        drawn = list(range(_NODES))
        random.Random(seed).shuffle(drawn)  # noqa: S311 - the seed draws the same names again
        orders[f"{_RANDOM} ({seed})"] = drawn
    return orders


def _rack_of(number: int) -> str:
    return _RACKS[number % len(_RACKS)]


def _address(number: int) -> str:
    return f"10.77.0.{number + 1}"


def _namespace(number: int) -> str:
    return f"rings-{number}"


@contextmanager
def _network() -> Iterator[None]:
    """The namespaces and the link between the racks; gone afterwards."""
    with ExitStack() as undo:
        for name in (_HUB, *map(_namespace, range(_NODES))):
            _ip("netns", "add", name)
            undo.callback(_ip, "netns", "delete", name)
        for rack in _RACKS:
            _ip("-n", _HUB, "link", "add", rack, "mtu", _mtu(), "type", "bridge")
            _ip("-n", _HUB, "link", "set", rack, "up")
        for number in range(_NODES):
            _connect(number)
        link = _start(_HUB, [sys.executable, "-m", "tools.bench.rack_link", *_RACKS])
        undo.callback(_end, link)
        if _output(link).readline().strip() != rack_link.READY:
            message = "the link between the racks did not come up"
            raise MeasurementError(message)
        yield


def _connect(number: int) -> None:
    """Give a node its namespace, its cable to the bridge of its rack, and its address."""
    name = _namespace(number)
    port = f"port-{number}"
    cable = ["peer", "name", "eth0", "netns", name, "mtu", _mtu()]
    _ip("-n", _HUB, "link", "add", port, "mtu", _mtu(), "type", "veth", *cable)
    _ip("-n", _HUB, "link", "set", port, "master", _rack_of(number), "up")
    _ip("-n", name, "address", "add", f"{_address(number)}/24", "dev", "eth0")
    _ip("-n", name, "link", "set", "lo", "up")
    _ip("-n", name, "link", "set", "eth0", "up")


def _mtu() -> str:
    return str(rack_link.MTU_BYTES)


def _all_reduce(python: str, plan: Mapping[str, Any]) -> dict[str, list[float]]:
    """The milliseconds of each repetition, by order. Raises MeasurementError."""
    with ExitStack() as undo:
        workers = []
        for number in range(_NODES):
            own = {**plan, "number": number, "address": _address(0), "port": _PORT}
            worker = _start(_namespace(number), [python, str(_WORKER), json.dumps(own)])
            undo.callback(_end, worker)
            workers.append(worker)
        try:
            text, _ = workers[0].communicate(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as error:
            message = f"no all-reduce within {_PATIENCE_SECONDS} s"
            raise MeasurementError(message) from error
    if workers[0].returncode:
        message = f"{python} failed with {workers[0].returncode}: does it have torch and gloo?"
        raise MeasurementError(message)
    return json.loads(text)


def _start(namespace: str, words: Sequence[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    command = [_IP, "netns", "exec", namespace, *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _output(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdout is None:
        message = "a process without output"
        raise MeasurementError(message)
    return process.stdout


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _ip(*words: str) -> None:
    """Run `ip`. Raises MeasurementError."""
    done = subprocess.run([_IP, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        command = " ".join(words)
        message = f"ip {command}: {done.stderr.strip()}"
        raise MeasurementError(message)
