"""Give the pods of a job ranks in the order of their racks, so that neighbors in a ring are close.

The pods meet at old rank 0, which sorts them by (path, old rank). A pod knows its node's path by
TOPOSCOPE_PATH, TOPOSCOPE_PATH_FILE or TOPOSCOPE_ENDPOINT. If it restarts, it gets its rank again.
"""  # One file for a job's image: it needs Python 3.8 and its standard library alone.

from __future__ import annotations

import argparse
import asyncio
import functools
import hashlib
import hmac
import json
import os
import resource
import shlex
import socket
import struct
import sys
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

PORT: Final = 29499
ENDPOINT: Final = "http://toposcope-node.toposcope-system.svc:9466/v1/topology"
WAIT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.5
POD_BYTES: Final = 8192  # that a pod may say of itself
SPARE_CONNECTIONS: Final = 512  # beyond one a pod; of more, the oldest ends
VISITS_PER_SECOND: Final = 500  # that old rank 0 shall have at most
KEEPING: Final = 10  # times as long between visits of a pod that has its rank
_RANKS: Final = "PET_NODE_RANK NODE_RANK LWS_WORKER_INDEX JOB_COMPLETION_INDEX OMPI_COMM_WORLD_RANK"
_SIZES: Final = "PET_NNODES NNODES LWS_GROUP_SIZE OMPI_COMM_WORLD_SIZE WORLD_SIZE"
_PLACES: Final = "PET_MASTER_ADDR MASTER_ADDR LWS_LEADER_ADDRESS"
_say: Final = functools.partial(print, "toposcope rank:", file=sys.stderr)


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
    try:
        if not text and os.path.exists(file):
            with open(file, encoding="utf-8") as lines:
                text = lines.read(POD_BYTES)
        if text.strip():
            return parse_path(text)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = environ.get("TOPOSCOPE_ENDPOINT", ENDPOINT)
        with opener.open(url, timeout=WAIT_SECONDS) as answer:
            steps = json.loads(answer.read(1 << 20))["path"]
        return tuple([(str(step["level"]), str(step["value"])) for step in steps])
    except Exception as error:  # noqa: BLE001 - whatever it is, the path is unknown
        _say(f"the path of this pod's node is unknown: {error}")
        return ()


def read_member(row: Any) -> Member:
    """The member of its JSON, which may be anything. Raises ValueError or TypeError."""
    old_rank, name, address, slots, steps = row
    path = tuple([(str(level), str(value)) for level, value in steps])
    return Member(int(old_rank), str(name), str(address), int(slots), path)


def packed(**message: Any) -> bytes:
    """A message as it travels. An order of 5,000 pods is some 100 KiB."""
    return zlib.compress(json.dumps(message).encode())


class _PodConnection:
    """One end of a connection. The token and a nonce of each end seal what is said."""

    def __init__(self, reader: Any, writer: Any, token: bytes) -> None:
        self._reader, self._writer, self._key = reader, writer, token

    async def agree(self) -> None:
        nonce = os.urandom(16)
        self._writer.write(nonce)
        other = await asyncio.wait_for(self._reader.readexactly(len(nonce)), WAIT_SECONDS)
        self._key = self._seal(min(nonce, other) + max(nonce, other))

    async def send(self, body: bytes) -> None:
        self._writer.write(struct.pack("!I32s", len(body), self._seal(body)) + body)
        await asyncio.wait_for(self._writer.drain(), WAIT_SECONDS)

    async def receive(self, limit: int) -> dict[str, Any]:
        """The next message. Raises RankError if the tokens differ."""
        header = await asyncio.wait_for(self._reader.readexactly(36), WAIT_SECONDS)
        size, seal = struct.unpack("!I32s", header)
        if size > limit:
            raise ValueError(f"a message of {size} bytes")
        body = await asyncio.wait_for(self._reader.readexactly(size), WAIT_SECONDS)
        if not hmac.compare_digest(seal, self._seal(body)):
            raise RankError("TOPOSCOPE_RANK_TOKEN differs between the pods")
        return dict(json.loads(zlib.decompressobj().decompress(body, limit)))

    def _seal(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()


class Meeting:
    """A pod's part in the meeting: it asks old rank 0 for the order; old rank 0 also answers."""

    def __init__(self, request: JoinRequest) -> None:
        self.own = request
        self.order: list[Member] = []
        self.problem = ""
        self.owed: set[int] = set()  # old ranks that wait for the order, or for the problem
        self._order_bytes = POD_BYTES * (request.size + 1)
        self._interval = max(RETRY_SECONDS, request.size / VISITS_PER_SECOND)
        self._decided: dict[int, Member] = {}  # by old rank, in the order of the new ones
        self._answer = b""
        self._seen: dict[int, tuple[float, Member]] = {}
        self._open: dict[Any, Any] = {}  # transports, the oldest first

    async def ask(self) -> None:  # dense: no line to spare
        """Visit until this pod has the order, then go on: old rank 0 may restart without it."""
        until = time.monotonic() + self.own.timeout
        missing, failure = "", "no answer"
        while not self.problem:
            try:
                answer = await asyncio.wait_for(self._visit(), 2 * WAIT_SECONDS)
                self.problem = str(answer.get("error", self.problem))
                self.order = [read_member(row) for row in answer.get("order", self.order)]
                missing = answer.get("missing", "")
            except RankError as error:
                self.problem = str(error)
            except Exception as error:  # noqa: BLE001 - the answer may be anything
                failure = str(error) or failure
            if not self.order and not self.problem and time.monotonic() > until:
                nobody = f"no meeting at {self.own.host}:{self.own.port} (old rank 0): {failure}"
                self.problem = f"after {self.own.timeout:g} s {missing}" if missing else nobody
            await asyncio.sleep(self._interval * (KEEPING if self.order else 1))

    async def _visit(self) -> dict[str, Any]:
        own = self.own
        reader, writer = await asyncio.open_connection(own.host, own.port, limit=POD_BYTES)
        try:
            connection = _PodConnection(reader, writer, own.token)
            await connection.agree()
            pod = own.pod._replace(address=own.pod.address or writer.get_extra_info("sockname")[0])
            await connection.send(packed(pod=pod, size=own.size, knows=bool(self.order)))
            answer = await connection.receive(self._order_bytes)
            if "ask" in answer:
                await connection.send(packed(order=self.order))
                answer = await connection.receive(self._order_bytes)
            return answer
        finally:
            writer.close()

    async def serve(self) -> None:
        """Answer for ever, as soon as the port is free."""
        self._asks_one = asyncio.Lock()
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1 << 16, most_files), most_files))
        limits: Any = {"port": self.own.port, "limit": POD_BYTES, "backlog": 4096}
        while True:
            try:
                await (await asyncio.start_server(self._welcome, **limits)).serve_forever()
            except OSError as error:
                _say(f"port {self.own.port}: {error.strerror}")
                await asyncio.sleep(RETRY_SECONDS)

    async def _welcome(self, reader: Any, writer: Any) -> None:
        self._open[writer] = writer.transport
        if len(self._open) > self.own.size + SPARE_CONNECTIONS:
            self._open.pop(next(iter(self._open))).abort()
        connection = _PodConnection(reader, writer, self.own.token)
        try:
            await connection.agree()
            try:
                answer = await self._answer_to(connection, await connection.receive(POD_BYTES))
            except RankError as error:
                answer = packed(error=str(error))
            await connection.send(answer)
        except Exception:  # noqa: BLE001, S110 - a stranger, or a pod that will come again
            pass
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _answer_to(self, connection: _PodConnection, hello: dict[str, Any]) -> bytes:
        """The answer to a pod. Raises RankError if it doesn't belong here."""
        pod = read_member(hello["pod"])
        self._check(pod, hello["size"])
        if hello["knows"] and not self._decided:
            if self._asks_one.locked():
                return packed()
            async with self._asks_one:
                await self._adopt(connection, pod)
        self._seen[pod.old_rank] = (time.monotonic(), pod)
        self._decide(pod)
        if not self._answer and not self.problem:
            self.owed.add(pod.old_rank)
            lost = [str(rank) for rank in range(self.own.size) if rank not in self._seen]
            shown = ", ".join(lost[:20] + ["..."] * bool(lost[20:]))
            return packed(missing=f"{len(lost)} of {self.own.size} pods missing: old ranks {shown}")
        self.owed.discard(pod.old_rank)
        return packed() if hello["knows"] else self._answer or packed(error=self.problem)

    def _is_here(self, rank: int) -> bool:
        seen, _ = self._seen[rank]
        return time.monotonic() - seen < WAIT_SECONDS + (KEEPING + 2) * self._interval

    def _check(self, pod: Member, size: Any) -> None:
        own = self.own
        if size != own.size or not 0 <= pod.old_rank < size:
            given = f"pod {pod.name} has old rank {pod.old_rank} and --size {size}"
            raise RankError(f"{given}, but {own.pod.name} has old rank 0 and --size {own.size}")
        _, held = self._seen.get(pod.old_rank, (0.0, pod))
        if held.name != pod.name and self._is_here(pod.old_rank):
            problem = f"two pods have old rank {pod.old_rank}: {held.name} and {pod.name}"
            if not self._decided:  # one of them is of another job, so that no order is safe
                self.problem = problem
            raise RankError(problem)

    async def _adopt(self, connection: _PodConnection, pod: Member) -> None:
        """Take over what a pod was told before old rank 0 restarted. Raises RankError."""
        await connection.send(packed(ask=True))
        told = (await connection.receive(self._order_bytes))["order"]
        order = {member.old_rank: member for member in map(read_member, told)}
        names = [order[rank].name for rank in range(self.own.size)]
        if (names[0], names[pod.old_rank]) != (self.own.pod.name, pod.name):
            raise RankError(f"pod {pod.name} has ranks of another meeting")
        self._decided = order

    def _decide(self, pod: Member) -> None:  # dense: no line to spare
        """Decide when all are here; later, a pod that restarted may have another address."""
        if not self._decided and not self.problem and len(self._seen) == self.own.size:
            here = {rank: seen for rank, seen in self._seen.items() if self._is_here(rank)}
            if len(here) == self.own.size:
                members = ordered([member for _, member in here.values()])
                self._decided = {member.old_rank: member for member in members}
            self._seen = here
        if self._decided and (not self._answer or self._decided[pod.old_rank] != pod):
            self._decided[pod.old_rank] = pod
            self._answer = packed(order=list(self._decided.values()))


async def live(meeting: Meeting, report: int, watched: int) -> None:  # dense: no line to spare
    """Report the order or the problem, and stay while the process `watched` is there."""
    parent = os.getppid()
    serving = [] if meeting.own.pod.old_rank else [meeting.serve()]
    running = asyncio.gather(meeting.ask(), *serving)
    while not (meeting.order or meeting.problem or running.done() or os.getppid() != parent):
        await asyncio.sleep(0.02)
    until = time.monotonic() + WAIT_SECONDS * (2.0 if meeting.order else 0.7)
    while meeting.owed - {0} and time.monotonic() < until:
        await asyncio.sleep(0.02)
    with open(report, "w", encoding="utf-8") as answer:
        json.dump(meeting.order or meeting.problem, answer)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    while meeting.order and os.path.exists(f"/proc/{watched}"):
        await asyncio.sleep(RETRY_SECONDS)


def meet(request: JoinRequest, watched: int = 0) -> list[Member]:
    """The pods in the order of their new ranks, by a child process: `live`. Raises RankError."""
    ours, theirs = os.pipe()
    if not os.fork():
        try:
            asyncio.run(live(Meeting(request), theirs, watched))
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, encoding="utf-8") as answers:
        answer = json.loads(answers.read() or '""')
    if isinstance(answer, str):
        raise RankError(answer or "the process that met the other pods failed")
    return [read_member(row) for row in answer]


def environment_of(order: list[Member], own: Member) -> dict[str, str]:
    """What launchers read: torchrun takes the variables PET_*. All count pods, not processes."""
    rank = str([pod.old_rank for pod in order].index(own.old_rank))
    master = {"MASTER_ADDR": order[0].address, "NODE_RANK": rank, "NNODES": str(len(order))}
    named = {f"PET_{name}": value for name, value in master.items()}
    return {"RANK": rank, "WORLD_SIZE": str(len(order)), **master, **named}


def written(order: list[Member], own: Member, style: str) -> str:  # dense: no line to spare
    """The order in a format of a launcher."""
    if style == "dlrover":  # a node's switch group by its address, for --enable-topology-rerank
        groups = {pod.address: [v for level, v in pod.path if level != "host"] for pod in order}
        return json.dumps({address: "/".join(values) for address, values in groups.items()})
    if style == "env":
        lines = [f"export {k}={shlex.quote(v)}" for k, v in environment_of(order, own).items()]
    else:  # of Open MPI, or of Intel MPI and MPICH
        mark = " slots=" if style == "hostfile" else ":"
        lines = [f"{pod.address}{mark}{pod.slots}" for pod in order if pod.slots]
    return "\n".join(lines)


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
    formats = ("env", "hostfile", "machinefile", "dlrover", "ray-labels")
    add("--format", choices=formats, default="env", help="what to print; default: env")
    add("--no-keep", action="store_true", help="leave no process behind for pods that restart")
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run, after --")


def request_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> JoinRequest:
    """What flags and environment say. Raises RankError."""
    found = [arguments.rank, arguments.size, arguments.meet]
    for place, names in enumerate((_RANKS, _SIZES, _PLACES)):
        for name in names.split():
            found[place] = environ.get(name) or None if found[place] is None else found[place]
    text = str(found[2] or "")
    text = f"[{text}]" if text.count(":") > 1 > text.count("[") else text  # IPv6
    token = environ.get("TOPOSCOPE_RANK_TOKEN", "").encode()
    try:
        rank, size, meeting = int(found[0]), int(found[1]), urllib.parse.urlsplit(f"//{text}")
        host, port = meeting.hostname, meeting.port or PORT
        if not host:
            raise ValueError
    except (TypeError, ValueError):
        raise RankError(f"set --rank, --size and --meet; now they are {found}") from None
    pod = Member(rank, arguments.name, arguments.address, arguments.slots, find_path(environ))
    return JoinRequest(pod, size, host, port, arguments.timeout, token)


def run(arguments: argparse.Namespace) -> int:  # dense: no line to spare
    """Meet, then print or become the command; 2 without ranks."""
    if arguments.format == "ray-labels":
        print(json.dumps({f"gpu.topology/path-{k}": v for k, v in find_path(os.environ)}))
        return 0
    words = arguments.command[arguments.command[:1] == ["--"] :]
    watched = os.getpid() if words else os.getsid(0) or 1
    try:
        request = request_of(arguments, os.environ)
        order = meet(request, 0 if arguments.no_keep else watched)
    except RankError as error:
        _say(str(error))
        return 2
    if nowhere := [pod.name for pod in order if pod.slots and not pod.path]:
        _say(f"pods without a path have the last ranks: {', '.join(nowhere)}")
    if not words:
        print(written(order, request.pod, arguments.format), flush=True)
        return 0
    try:
        os.execvpe(words[0], words, {**os.environ, **environment_of(order, request.pod)})
    except OSError as error:
        _say(f"{words[0]}: {error.strerror}")
        return 127


if __name__ == "__main__":
    add_arguments(program := argparse.ArgumentParser(prog="rank.py", description=__doc__))
    sys.exit(run(program.parse_args()))
