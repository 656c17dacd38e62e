"""Give the pods of a job ranks in the order of their racks, so that neighbors in a ring are close.

The pods meet at old rank 0, which sorts them by (path, old rank). A pod knows its node's path by
TOPOSCOPE_PATH, TOPOSCOPE_PATH_FILE or TOPOSCOPE_ENDPOINT. If it restarts, it gets its rank again.
"""  # One file for a job's image: it needs Python 3.8 and its standard library alone.

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

PORT: Final = 29499
ENDPOINT: Final = "http://toposcope-node.toposcope-system.svc:9466/v1/topology"
WAIT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.5
LINE_BYTES: Final = 1 << 20
_RANKS: Final = "PET_NODE_RANK NODE_RANK LWS_WORKER_INDEX JOB_COMPLETION_INDEX OMPI_COMM_WORLD_RANK"
_SIZES: Final = "PET_NNODES NNODES LWS_GROUP_SIZE OMPI_COMM_WORLD_SIZE WORLD_SIZE"
_PLACES: Final = "PET_MASTER_ADDR MASTER_ADDR LWS_LEADER_ADDRESS"
"""Variables of launchers and controllers for the old rank, the count of pods, and old rank 0."""
_MALFORMED: Final = (OSError, ValueError, TypeError, LookupError, RecursionError, ArithmeticError)


class RankError(Exception):
    """There are no ranks; the message says why."""


class Member(NamedTuple):
    """A pod of the job: its path is empty where it is unknown; `slots` counts its processes."""

    old_rank: int
    name: str
    address: str
    slots: int
    path: tuple[tuple[str, str], ...]


class JoinRequest(NamedTuple):
    """What this pod brings to the meeting."""

    pod: Member
    size: int
    host: str
    port: int
    timeout: float
    token: bytes


def ordered(pods: Iterable[Member]) -> list[Member]:
    """The pods in the order of their new ranks; those without a path are last."""
    return sorted(pods, key=lambda pod: (not pod.path, pod.path, pod.old_rank))


def parse_path(text: str) -> tuple[tuple[str, str], ...]:
    """The path of its text, `block=b1,rack=r2`. Raises ValueError."""
    parts = [part.partition("=") for part in text.strip().split(",")]
    if not all(level and value and "=" not in value for level, _, value in parts):
        raise ValueError(f"{text[:200]!r} is not LEVEL=VALUE,...")
    return tuple([(level, value) for level, _, value in parts])


def find_path(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The path of this pod's node, by environment, file or endpoint; else empty."""
    text = environ.get("TOPOSCOPE_PATH", "")
    file = environ.get("TOPOSCOPE_PATH_FILE", "/etc/toposcope/path")
    url = environ.get("TOPOSCOPE_ENDPOINT", ENDPOINT)
    try:
        if not text and os.path.exists(file):
            with open(file, encoding="utf-8") as lines:
                text = lines.read(LINE_BYTES)
        if text.strip():
            return parse_path(text)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=WAIT_SECONDS) as answer:
            steps = json.loads(answer.read(LINE_BYTES))["path"]
        return tuple([(str(step["level"]), str(step["value"])) for step in steps])
    except _MALFORMED as error:
        _say(f"the path of this pod's node is unknown: {error}")
    return ()


def _say(text: str) -> None:
    print(f"toposcope rank: {text}", file=sys.stderr, flush=True)


def seal(body: str, token: bytes, nonce: str) -> bytes:
    """A line of the protocol: a message, and the HMAC of it and the receiver's nonce."""
    mac = hmac.new(token, f"{nonce} {body}".encode(), hashlib.sha256).hexdigest()
    return json.dumps([body, mac]).encode() + b"\n"


def unseal(line: bytes, token: bytes, nonce: str) -> dict[str, Any]:
    """The message of a line; PermissionError if a token is set and the HMAC differs."""
    body, _ = map(str, json.loads(line))
    if token and not hmac.compare_digest(seal(body, token, nonce), line):
        raise PermissionError("TOPOSCOPE_RANK_TOKEN differs between the pods")
    return dict(json.loads(body))


def read_member(row: Any) -> Member:
    """The member of its JSON, which may be anything. Raises ValueError or TypeError."""
    old_rank, name, address, slots, steps = row
    path = tuple([(str(level), str(value)) for level, value in steps])
    return Member(int(old_rank), str(name), str(address), int(slots), path)


class Meeting:
    """What old rank 0 serves: pods wait until all have come; those who come later are told."""

    def __init__(self, request: JoinRequest) -> None:
        self._request = request
        self._order: list[Member] = []
        self._present: dict[int, Member] = {}
        self._notes: list[str] = []
        self.owed: set[asyncio.StreamWriter] = set()

    async def serve(self) -> None:
        """Serve for ever, unless the port is taken: then another meeting is there, or none."""
        self._is_decided = asyncio.Event()
        try:
            place: dict[str, Any] = {"host": None, "port": self._request.port, "limit": LINE_BYTES}
            await (await asyncio.start_server(self._welcome, **place)).serve_forever()
        except OSError as error:
            _say(f"port {self._request.port}: {error.strerror}")

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            nonce = os.urandom(16).hex()
            writer.write(json.dumps({"nonce": nonce}).encode() + b"\n")
            line = await asyncio.wait_for(reader.readline(), WAIT_SECONDS)
            await self._answer(reader, writer, unseal(line, self._request.token, nonce))
        except PermissionError as error:
            await self._tell(writer, str(error), "")
        except (*_MALFORMED, asyncio.TimeoutError):  # noqa: UP041 - two classes before 3.11
            pass  # a stranger, or a pod that has gone and will come again
        finally:
            writer.close()

    async def _answer(self, reader: Any, writer: Any, hello: dict[str, Any]) -> None:
        pod = read_member(hello["pod"])
        problem = self._problem(pod, hello["size"]) or self._adopt(hello["known"], pod)
        if problem:
            self._notes = [*self._notes[-7:], problem]
            await self._tell(writer, problem, hello["nonce"])
            return
        self._present[pod.old_rank] = pod
        self.owed.add(writer)
        gone: asyncio.Future[Any] = asyncio.ensure_future(reader.read(1))
        try:
            problem = await self._wait(pod, gone, int(hello["seconds"]))
            if not gone.done():
                await self._tell(writer, problem, hello["nonce"])
            self.owed.discard(writer)
            await gone
        finally:
            self.owed.discard(writer)
            if self._present.get(pod.old_rank) is pod:
                del self._present[pod.old_rank]

    async def _wait(self, pod: Member, gone: asyncio.Future[Any], seconds: float) -> str:
        """Wait until the order is known, the pod has gone or has no more time; returns why."""
        if not self._order and len(self._present) == self._request.size:
            self._order = ordered(self._present.values())
        if self._order:  # a restarted pod may have another address
            self._order = [self._present.get(known.old_rank, known) for known in self._order]
            self._is_decided.set()
        decided: asyncio.Future[Any] = asyncio.ensure_future(self._is_decided.wait())
        await asyncio.wait({gone, decided}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if self._order or gone.done():
            return ""
        if pod.old_rank == 0:  # the meeting ends with it: tell all
            self._is_decided.set()
        return self._missing()

    async def _tell(self, writer: asyncio.StreamWriter, problem: str, nonce: str) -> None:
        answer = json.dumps({"error": problem} if problem else {"order": self._order})
        writer.write(seal(answer, self._request.token, nonce))
        await asyncio.wait_for(writer.drain(), WAIT_SECONDS)

    def _problem(self, pod: Member, size: Any) -> str:
        own = self._request
        if size != own.size or not 0 <= pod.old_rank < own.size:
            given = f"pod {pod.name} has old rank {pod.old_rank} and --size {size}"
            return f"{given}, but {own.pod.name} has old rank 0 and --size {own.size}"
        held = self._present.get(pod.old_rank, pod)
        if held.name != pod.name:
            return f"two pods have old rank {pod.old_rank}: {held.name} and {pod.name}"
        return ""

    def _adopt(self, rows: list[Any], pod: Member) -> str:
        """Take over what a pod was told before old rank 0 restarted; returns why not."""
        order = [read_member(row) for row in rows]
        ranks = [known.old_rank for known in order]
        names = {known.old_rank: known.name for known in order}
        is_whole = sorted(ranks) == list(range(self._request.size))
        is_ours = names.get(0) == self._request.pod.name and names.get(pod.old_rank) == pod.name
        if order and not (is_whole and is_ours):
            return f"pod {pod.name} (old rank {pod.old_rank}) has ranks of another meeting"
        self._order = self._order or order
        return ""

    def _missing(self) -> str:
        absent = [str(rank) for rank in range(self._request.size) if rank not in self._present]
        shown = ", ".join(absent[:20] + ["..."] * bool(absent[20:]))
        text = f"{len(absent)} pods did not come within {self._request.timeout:g} s: "
        return "; ".join([f"{text}old ranks {shown}", *dict.fromkeys(self._notes)])


class Keeper:
    """Meets the other pods in a thread, and stays there for those that restart."""

    def __init__(self, request: JoinRequest) -> None:
        self.order: list[Member] = []
        self.problem = ""
        self._request = request
        self._meeting = Meeting(request)
        self._is_answered = threading.Event()

    def meet(self) -> list[Member]:
        """The pods in the order of their new ranks. Raises RankError."""
        if self._request.pod.old_rank == 0:
            threading.Thread(target=lambda: asyncio.run(self._meeting.serve()), daemon=True).start()
        threading.Thread(target=self._stay, daemon=True).start()
        self._is_answered.wait(self._request.timeout + WAIT_SECONDS)
        if not self.order:
            self.wait_for_others()
            raise RankError(self.problem or "the meeting at old rank 0 gave no answer in time")
        return self.order

    def wait_for_others(self) -> None:
        """Wait until all pods that came are told."""
        for _ in range(200):
            time.sleep(0.05 if self._meeting.owed else 0)

    def _stay(self) -> None:
        place = (self._request.host, self._request.port)
        until = time.monotonic() + self._request.timeout
        while not self.problem:
            left = max(until - time.monotonic(), RETRY_SECONDS)
            try:
                with socket.create_connection(place, min(WAIT_SECONDS, left)) as connection:
                    self._learn(connection, left)
                    self._is_answered.set()
                    connection.settimeout(None)
                    connection.recv(1)
            except _MALFORMED as error:
                if not self._is_answered.is_set() and time.monotonic() > until:
                    self.problem = f"no meeting at {place[0]}:{place[1]} (old rank 0): {error}"
                    self._is_answered.set()
            time.sleep(RETRY_SECONDS)

    def _learn(self, connection: socket.socket, seconds: float) -> None:
        """Say hello and learn the order, or the problem. Raises one of _MALFORMED."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        lines = connection.makefile("rb")
        nonce = str(json.loads(lines.readline(LINE_BYTES))["nonce"])
        token, own = self._request.token, self._request.pod
        pod = own._replace(address=own.address or str(connection.getsockname()[0]))
        hello = {"pod": pod, "size": self._request.size, "known": self.order}
        patience = int(seconds) + (5 if pod.old_rank else 1)  # old rank 0 tells all who is missing
        hello.update(seconds=patience, nonce=os.urandom(16).hex())
        connection.sendall(seal(json.dumps(hello), token, nonce))
        connection.settimeout(seconds + WAIT_SECONDS)
        answer = unseal(lines.readline(LINE_BYTES), token, str(hello["nonce"]))
        self.problem = str(answer.get("error", ""))
        if "order" in answer:
            self.order = [read_member(row) for row in answer["order"]]


def environment_of(order: list[Member], own: Member) -> dict[str, str]:
    """What launchers read: torchrun takes the variables PET_*. All count pods, not processes."""
    rank = str([pod.old_rank for pod in order].index(own.old_rank))
    master = {"MASTER_ADDR": order[0].address, "NODE_RANK": rank, "NNODES": str(len(order))}
    named = {f"PET_{name}": value for name, value in master.items()}
    return {"RANK": rank, "WORLD_SIZE": str(len(order)), **master, **named}


def written(order: list[Member], own: Member, style: str) -> str:  # dense: one line a format
    """The order in a format of a launcher."""
    if style.endswith("file"):  # of Open MPI; of Intel MPI and MPICH
        mark = " slots=" if style == "hostfile" else ":"
        return "\n".join([f"{pod.address}{mark}{pod.slots}" for pod in order if pod.slots])
    if style == "json":
        return json.dumps([pod._asdict() for pod in order])
    if style == "dlrover":  # a node's switch group by its address, for --enable-topology-rerank
        groups = {pod.address: [v for level, v in pod.path if level != "host"] for pod in order}
        return json.dumps({address: "/".join(values) for address, values in groups.items()})
    pairs = environment_of(order, own).items()
    return "\n".join([f"export {name}={shlex.quote(value)}" for name, value in pairs])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("--rank", type=int, metavar="N", help="old rank; default: by the environment")
    add("--size", type=int, metavar="N", help="count of pods; default: by the environment")
    add("--meet", metavar="HOST[:PORT]", help="old rank 0; default: MASTER_ADDR and port 29499")
    add("--timeout", type=float, default=300.0, metavar="SECONDS", help="to wait; default: 300")
    add("--name", default=socket.gethostname(), help="of this pod; default: its host name")
    add("--address", default=os.environ.get("POD_IP", ""), help="of this pod; default: its IP")
    add("--slots", type=int, default=1, metavar="N", help="processes here; 0: not in a hostfile")
    formats = ("env", "hostfile", "machinefile", "dlrover", "ray-labels", "json")
    add("--format", choices=formats, default="env", help="what to print; default: env")
    add("--no-keep", action="store_true", help="leave no process behind for pods that restart")
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run, after --")


def request_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> JoinRequest:
    """What flags and environment say. Raises RankError."""
    found = [arguments.rank, arguments.size, arguments.meet]
    for place, names in enumerate((_RANKS, _SIZES, _PLACES)):
        for name in names.split():
            found[place] = environ.get(name) or None if found[place] is None else found[place]
    host, _, port = str(found[2] or ":?").partition(":")
    token = environ.get("TOPOSCOPE_RANK_TOKEN", "").encode()
    try:
        rank, size, number = int(found[0]), int(found[1]), int(port or PORT)
    except (TypeError, ValueError):
        raise RankError(f"set --rank, --size and --meet; now they are {found}") from None
    pod = Member(rank, arguments.name, arguments.address, arguments.slots, find_path(environ))
    return JoinRequest(pod, size, host, number, arguments.timeout, token)


def run(arguments: argparse.Namespace) -> int:  # dense: the file has no line to spare
    """Meet, then print or run the command; returns its exit code, 2 without ranks."""
    if arguments.format == "ray-labels":
        path = find_path(os.environ)
        print(json.dumps({f"gpu.topology/path-{level}": value for level, value in path}))
        return 0
    if arguments.command or arguments.no_keep:
        return _meet(arguments)
    session = os.getsid(0)
    ours, theirs = os.pipe()
    if os.fork():
        os.close(theirs)
        return (os.read(ours, 1) or b"\2")[0]
    code = _meet(arguments)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    os.write(theirs, bytes([code]))
    while code == 0 and (session == 0 or os.path.exists(f"/proc/{session}")):
        time.sleep(1)
    os._exit(0)


def _meet(arguments: argparse.Namespace) -> int:
    try:
        request = request_of(arguments, os.environ)
        keeper = Keeper(request)
        order = keeper.meet()
    except RankError as error:
        _say(str(error))
        return 2
    if nowhere := [pod.name for pod in order if pod.slots and not pod.path]:
        _say(f"pods without a path have the last ranks: {', '.join(nowhere)}")
    keeper.wait_for_others()
    if arguments.command:
        return _run_command(arguments.command, environment_of(order, request.pod))
    print(written(order, request.pod, arguments.format), flush=True)
    return 0


def _run_command(words: list[str], environment: Mapping[str, str]) -> int:
    """Run the command, and pass it the signals that this process gets."""
    words = words[1:] if words[0] == "--" else words
    try:
        child = subprocess.Popen(words, env={**os.environ, **environment})
    except OSError as error:
        _say(f"{words[0]}: {error.strerror}")
        return 127
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda got, _frame: child.send_signal(got))
    code = child.wait()
    return code if code >= 0 else 128 - code


def main() -> int:
    """Run this file as a program."""
    add_arguments(parser := argparse.ArgumentParser(prog="rank.py", description=__doc__))
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
