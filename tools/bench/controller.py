"""The controller from outside: its first look at a large cluster, and how soon it writes a change.

The server is the embedded one in a process of its own, over TLS; it shares two CPUs with what is
measured, so elapsed times are upper bounds. CPU and memory are the controller's alone.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from tools.bench.recompute import cpu
from tools.bench.report import Figure, Peer, Sample, Target
from tools.bench.usage import cpu_seconds, idle, peak_memory
from tools.bench.workspace import ApiServer, Program, cluster, has_room, program
from toposcope.api.cluster_topology import PATH
from toposcope.controller.loop import RESYNC_SECONDS, collect_rarely
from toposcope.controller.node_decoder import NODE_JSON
from toposcope.integrations.grove.api import BINDINGS
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.requests import NODES, get
from toposcope.simulator.cluster import RACK_KEY, large_cluster

_MIB: Final = 1 << 20
_MERGE: Final = "application/merge-patch+json"
STATUS: Final = ("PATCH", "/status")
_SIZES: Final = {
    (1_000, ""): (),
    (10_000, "rails"): (Target(1.5), Target(64)),
    (15_000, ""): (Target(1.5, limit=0.14), Target(64)),
    (100_000, ""): (Target(10, limit=0.9), Target(96)),
}
"""Targets for CPU seconds and MiB, by the number of Nodes and what `cluster` gives them.

The limit is to decode as many Nodes that lie in memory.
"""
_DECODED_NODES: Final = 2_000
"""Nodes that are decoded again and again for that: 54 MB, more than a cache holds."""
REST_SECONDS: Final = RESYNC_SECONDS + 5
COLUMNS: Final = (("CPU", "s"), ("peak memory", "MiB"), ("elapsed", "s"))
"""What is measured of a first look, with its unit."""


def sync_figures(*, quick: bool) -> Iterator[Figure]:
    """From the controller's start to its first status: CPU, peak memory, time.

    No debounce, metrics port open.

    Beside it: to decode Nodes alone, as msgspec does it, a process that only reads the same bytes,
    and one that reads, decodes and keeps the facts.
    """
    collect_rarely()  # as the controller does
    compile_programs()
    largest, _ = max(_SIZES)
    for (nodes, what), targets in _SIZES.items():
        if quick and targets:
            return
        if has_room(nodes):
            runs = 7 if nodes < largest else 3
            yield from _first_looks(nodes, what, targets, runs)


def _first_looks(nodes: int, what: str, targets: Sequence[Target], runs: int) -> Iterator[Figure]:
    with cluster(nodes, *what.split()) as (folder, server):
        environment = server.environment
        controller = [_first_status(folder, server, nodes) for _ in range(runs)]
        drain = [until_done("drain", folder, environment) for _ in range(runs)]
        decode = [until_done("decode", folder, environment) for _ in range(runs)]

    cluster_name = f"first look at {nodes:,} nodes"
    if what:
        cluster_name += " of 8 rails"

    for number, (name, unit) in enumerate(COLUMNS):
        peers = []
        if name == "CPU":
            in_memory = _decoding(nodes, runs)
            peers.append(Peer("decode Nodes in memory", in_memory))
        drained = column(drain, number, unit)
        decoded = column(decode, number, unit)
        peers.append(Peer("read the bytes only", drained))
        peers.append(Peer("read, decode, keep", decoded))

        target = None
        if number < len(targets):
            target = targets[number]

        yield Figure(
            f"{cluster_name}, {name}",
            column(controller, number, unit),
            target,
            tuple(peers),
        )


def _decoding(nodes: int, runs: int) -> Sample:
    """Seconds of CPU to decode Nodes into the facts that the controller keeps."""
    count = min(nodes, _DECODED_NODES)
    objects = [msgspec.json.encode(node) for node in large_cluster(count)]
    decode = NODE_JSON.decode
    milliseconds = cpu(lambda: [decode(obj) for obj in objects], runs)

    seconds = []
    for value in milliseconds.values:
        per_node = value / 1000 / count
        seconds.append(per_node * nodes)
    return Sample(tuple(seconds), "s")


def compile_programs() -> None:
    """Run every program once on a small cluster."""
    with cluster(nodes=1) as (folder, server):
        _first_status(folder, server, nodes=1)
        for name in ("drain", "decode"):
            until_done(name, folder, server.environment)


def _first_status(folder: Path, server: ApiServer, nodes: int) -> tuple[float, ...]:
    """CPU seconds, peak MiB and seconds until a fresh controller has written its first status."""
    client = server.client()
    forget_status(client)
    server.tell("forget")
    server.tell("hold", *STATUS)

    flags = ("--debounce", "0", "--metrics-port", "0")
    began = time.monotonic()
    with program("controller", server.environment, folder, *flags) as running:
        came: float = server.wait(running, "held")
        cpu_used = cpu_seconds(running.pid)
        peak_mib = peak_memory(running.pid) / _MIB
        elapsed = came - began

        server.tell("release")
        server.wait(running, "await", *STATUS)
        status = topology(client)["status"]
        seen = status["nodes"]
        if seen != nodes:
            raise running.failure(f"it counts {seen} of {nodes} nodes")
        return cpu_used, peak_mib, elapsed


def until_done(
    name: str, folder: Path, environment: Mapping[str, str]
) -> tuple[float, float, float]:
    """CPU seconds, peak MiB and elapsed seconds of a program up to its first line."""
    began = time.monotonic()
    with program(name, environment, folder) as running:
        running.word()
        cpu_used = cpu_seconds(running.pid)
        peak_mib = peak_memory(running.pid) / _MIB
        elapsed = time.monotonic() - began
        return cpu_used, peak_mib, elapsed


def column(rows: Sequence[tuple[float, ...]], index: int, unit: str) -> Sample:
    """One of the numbers of every run."""
    return Sample(tuple(row[index] for row in rows), unit)


def topology(client: ApiClient) -> Any:
    """The ClusterTopology that is served."""
    return client.call(get(f"{PATH}/cluster"))


def forget_status(client: ApiClient) -> None:
    """Reset the status of the ClusterTopology.

    A controller that agrees with its status would not write it.
    """
    client.call(merge(f"{PATH}/cluster/status", {"status": None}))


def merge(path: str, change: dict[str, Any]) -> Request:
    """A merge patch."""
    return Request("PATCH", path, {}, msgspec.json.encode(change), _MERGE)


def change_figures(*, quick: bool) -> Iterator[Figure]:
    """From a changed label being stored to the new status being stored, by the server's clock.

    Every change moves one node to a rack of its own or back. Without debounce; Grove is served, so
    each pass also asks for Grove's API and its binding before it writes.
    """
    yield from _changes(15_000, 20 if quick else 100, has_rest=True)
    if not quick and has_room(100_000):
        yield from _changes(100_000, 100)


def _changes(nodes: int, changes: int, *, has_rest: bool = False) -> Iterator[Figure]:
    written = []
    controller = []
    requests = None
    with (
        cluster(nodes) as (folder, server),
        program("controller", server.environment, folder, "--debounce", "0") as running,
    ):
        server.wait(running, "await", *STATUS)
        idle(running.pid)
        client = server.client()
        trips = [round_trip(client) for _ in range(changes)]

        for name, rack in moves(client, changes):
            seconds, own_seconds = change(server, client, name, rack, running)
            written.append(1000 * seconds)
            controller.append(1000 * own_seconds)
        if has_rest:
            requests = at_rest(server)

    # A fiftieth of the debounce. Each pass counts all nodes anew: a table kept up to date saved 4
    # ms that nobody saw.
    what = f"label changed to status written, {nodes:,} nodes"
    trip_times = Sample(tuple(trips), "ms")
    trip = Peer("one GET over TLS", trip_times)
    median = Sample(tuple(written), "ms")
    slowest = replace(median, share=0.99)
    own = Sample(tuple(controller), "ms")
    yield Figure(f"{what}, p50", median, peers=(trip,))
    yield Figure(f"{what}, p99", slowest, Target(20))
    yield Figure("  without the server's own handling, p50", own, peers=(trip,))

    if requests:
        writes, reads = requests
        what = f"controller at rest, {nodes:,} nodes, {REST_SECONDS:.0f} s"
        written_at_rest = Sample((writes,), "")
        read_at_rest = Sample((reads,), "")
        yield Figure(f"{what}, writes", written_at_rest, Target(0))
        yield Figure(f"{what}, reads", read_at_rest)


def at_rest(server: ApiServer) -> tuple[int, int]:
    """Writes and reads while nothing changes, until everything was looked at again once."""
    server.tell("forget")
    time.sleep(REST_SECONDS)

    entries = server.tell("entries")
    methods = [method for method, *_ in entries]
    reads = methods.count("GET")
    writes = len(methods) - reads
    return writes, reads


def moves(client: ApiClient, count: int) -> Iterator[tuple[str, str]]:
    """Changes, each a node and its new rack: first a rack of its own, then the old one again."""
    request = Request("GET", NODES, {"limit": "100"})
    nodes = client.call(request)["items"]
    for number in range(count):
        metadata = nodes[number // 2]["metadata"]
        rack = "a-rack-of-its-own"
        if number % 2:
            rack = metadata["labels"][RACK_KEY]
        yield metadata["name"], rack


def change(
    server: ApiServer, client: ApiClient, name: str, rack: str, running: Program
) -> tuple[float, float]:
    """Seconds until the status is written, and those in which no request was handled."""
    path = f"{NODES}/{name}"
    labels = {RACK_KEY: rack}
    server.tell("forget")
    client.call(merge(path, {"metadata": {"labels": labels}}))

    stored = 0.0
    written = 0.0
    entries = server.wait(running, "await", *STATUS)
    for method, asked_path, _, done in reversed(entries):
        if method != "PATCH":
            continue
        if asked_path == path:
            stored = done
        elif asked_path.endswith("/status"):
            written = done
    if written < stored:
        raise running.failure("it wrote a status before the change")

    handling = 0.0
    for _, _, came, done in entries:
        if came >= stored and done <= written:
            handling += done - came
    idle(running.pid)  # it sees the status that it wrote and looks at all nodes once more

    took = written - stored
    return took, took - handling


def round_trip(client: ApiClient) -> float:
    """Milliseconds of a request that costs the server little."""
    request = get(f"/apis/{BINDINGS.api_version()}")
    began = time.monotonic()
    client.call(request)
    return 1000 * (time.monotonic() - began)
