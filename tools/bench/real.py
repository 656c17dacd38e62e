"""The controller beside a real kube-apiserver with etcd: its first look, and how soon it writes.

Nothing can be stopped or timed inside that server, so moments are those at which a client hears of
them: a change counts from the answer to its PATCH to the watch event with the new status. Servers
and controller share the CPUs.
"""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tools.apiserver.build import cache_folder, is_built
from tools.apiserver.client import AdminApi
from tools.apiserver.server import RealApiServer, find_binaries
from tools.bench.controller import (
    COLUMNS,
    column,
    forget_status,
    merge,
    moves,
    round_trip,
    until_done,
)
from tools.bench.report import Figure, Peer, Sample, Target
from tools.bench.usage import cpu_seconds, idle, peak_memory
from tools.bench.workspace import MeasurementError, Program, pod_environment, program, scratch
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.integrations.framework.published import MANAGER
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.kube.requests import NODES, apply, get
from toposcope.simulator import manifests
from toposcope.simulator.cluster import RACK_KEY, large_cluster

_PAUSE_SECONDS: Final = 0.05
"""Seconds of quiet before a write, as before a change."""
_SERVERS: Final = ("uid", "resourceVersion", "creationTimestamp", "generation")
_FLAGS: Final = ("--debounce", "0", "--metrics-port", "0")
_LOADER_COUNT: Final = 4
_PATIENCE_SECONDS: Final = 60.0
_MIB: Final = 1 << 20


def real_figures(*, quick: bool) -> Iterator[Figure]:
    """First look and changes at 5,000 nodes (1,000 when quick).

    Yields nothing where there is no kube-apiserver.
    """
    if not is_there():
        return
    nodes = 1_000 if quick else 5_000
    runs = 1 if quick else 3
    changes = 20 if quick else 100

    with _real_cluster(nodes) as (folder, environment, client):
        looks = [_first_look(folder, environment, client, nodes) for _ in range(runs + 1)]
        drain = [until_done("drain", folder, environment) for _ in range(runs)]
        decode = [until_done("decode", folder, environment) for _ in range(runs)]
        for number, (name, unit) in enumerate(COLUMNS):
            drained = column(drain, number, unit)
            decoded = column(decode, number, unit)
            yield Figure(
                f"first look at {nodes:,} nodes, kube-apiserver, {name}",
                column(looks[1:], number, unit),  # the first compiles
                peers=(
                    Peer("read the bytes only", drained),
                    Peer("read, decode, keep", decoded),
                ),
            )
        waits, trips = _changes(folder, environment, client, changes)
        writes = _writes(client, changes)

    what = f"label changed to status seen, {nodes:,} nodes, kube-apiserver"
    for share, target in ((0.5, 5), (0.99, 20)):
        change = Sample(waits, "ms", share)
        write = Sample(writes, "ms", share)
        trip = Sample(trips, "ms", share)
        limits = (
            Peer("its status applied and seen, without a controller", write),
            Peer("one GET over TLS", trip),
        )
        yield Figure(f"{what}, p{100 * share:.0f}", change, peers=limits)

        # The target is for what we do; this server takes longer than that for a single write of any
        # custom resource.
        beyond = change.value - write.value
        yield Figure(
            "  beyond that write",
            Sample((beyond,), "ms"),
            Target(target),
        )


def is_there() -> bool:
    """Whether there is a kube-apiserver without building one; says so where there is none."""
    is_found = bool(
        os.environ.get("KUBEBUILDER_ASSETS")
        or shutil.which("kube-apiserver")
        or is_built(cache_folder())
    )
    if not is_found:
        print(
            "left out: there is no kube-apiserver (the tests build one where Go is installed)",
            file=sys.stderr,
        )
    return is_found


@contextmanager
def _real_cluster(nodes: int) -> Iterator[tuple[Path, dict[str, str], ApiClient]]:
    """A pod's credentials and environment, and a client, of a server with that many nodes."""
    with scratch() as folder, RealApiServer(find_binaries()) as server:
        (folder / "token").write_text(server.admin_token)
        (folder / "namespace").write_text("toposcope-system")
        shutil.copy(server.ca_file, folder / "ca.crt")

        where = urlsplit(server.url)
        environment = pod_environment(folder, str(where.hostname), str(where.port))
        client = ApiClient(load(None, environment, folder), "toposcope-bench")
        api = AdminApi(
            "real",
            server.url,
            folder / "kubeconfig",
            server.ca_file,
            server.admin_token,
        )
        with contextlib.closing(api.client):
            _fill(api, nodes)

        yield folder, environment, client


def _fill(api: AdminApi, nodes: int) -> None:
    """Create the CRDs, the Nodes and the ClusterTopology. Raises MeasurementError."""
    for crd in (manifests.cluster_topology_crd(), manifests.crd("grove/binding")):
        api.install_crd(crd)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "toposcope-system"}}
    api.create("/api/v1/namespaces", namespace)

    with ThreadPoolExecutor(_LOADER_COUNT) as pool:
        answers = pool.map(
            lambda node: api.create(NODES, _unmade(node)),
            large_cluster(nodes),
        )
        created = len(list(answers))

    topology = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "cluster"},
        "spec": {},
    }
    api.create(PATH, topology)
    if created != nodes:
        raise MeasurementError(f"{created} of {nodes} nodes were taken")


def _unmade(node: Mapping[str, Any]) -> dict[str, Any]:
    """A Node without what a server adds."""
    return {
        **node,
        "metadata": {key: value for key, value in node["metadata"].items() if key not in _SERVERS},
    }


def _first_look(
    folder: Path, environment: Mapping[str, str], client: ApiClient, nodes: int
) -> tuple[float, ...]:
    """CPU seconds, peak MiB and elapsed seconds until a fresh controller's first status is seen."""
    forget_status(client)
    began = time.monotonic()
    with _statuses(client) as news, program("controller", environment, folder, *_FLAGS) as running:
        status, came = news.after(running, bool)
        cpu_used = cpu_seconds(running.pid)
        peak_mib = peak_memory(running.pid) / _MIB
        elapsed = came - began

        seen = status["nodes"]
        if seen != nodes:
            raise running.failure(f"it counts {seen} of {nodes} nodes")
    return cpu_used, peak_mib, elapsed


def _changes(
    folder: Path, environment: Mapping[str, str], client: ApiClient, count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Milliseconds from each change to the status a client sees, and of as many plain requests."""
    waits = []
    trips = []
    forget_status(client)
    with _statuses(client) as news, program("controller", environment, folder, *_FLAGS) as running:
        status, _ = news.after(running, lambda status: bool(status.get("published")))
        for name, rack in moves(client, count):
            labels = {RACK_KEY: rack}
            change = {"metadata": {"labels": labels}}
            request = merge(f"{NODES}/{name}", change)
            levels = status.get("levels")
            has_changed = partial(_has_other_levels, levels)
            idle(running.pid)
            trip = round_trip(client)
            trips.append(trip)

            client.call(request)
            stored = time.monotonic()
            status, came = news.after(running, has_changed)
            wait = max(came - stored, 0.0)
            waits.append(1000 * wait)

    return tuple(waits), tuple(trips)


def _has_other_levels(levels: Any, status: Mapping[str, Any]) -> bool:
    return bool(status.get("levels") != levels)


def _writes(client: ApiClient, count: int) -> tuple[float, ...]:
    """Milliseconds from sending the apply of a status to the event that shows it.

    This is the server's part of every change: the status is the one that the controller wrote last,
    with another count in it each time, and nobody else is at work.
    """
    cluster = client.call(get(f"{PATH}/cluster"))
    uid = cluster["metadata"]["uid"]
    status = cluster["status"]
    first, *other_levels = status["levels"]
    waits = []

    with _statuses(client) as news:
        for turn in range(count):
            time.sleep(_PAUSE_SECONDS)
            domains = first["domains"] + turn + 1
            levels = [{**first, "domains": domains}, *other_levels]
            body = {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": "cluster", "uid": uid},
                "status": {**status, "levels": levels},
            }
            request = apply(f"{PATH}/cluster/status", body, MANAGER, force=True)

            began = time.monotonic()
            client.call(request)
            _, came = news.after(None, partial(_has_levels, levels))
            waits.append(1000 * (came - began))
    return tuple(waits)


def _has_levels(levels: Any, status: Mapping[str, Any]) -> bool:
    return bool(status.get("levels") == levels)


class News:
    """The latest status that a watch has shown, and when."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._status: dict[str, Any] = {}
        self._came = 0.0

    def put(self, line: bytes) -> None:
        """Take down an event, from the thread that watches."""
        with self._changed:
            self._status, self._came = (
                msgspec.json.decode(line)["object"].get("status") or {},
                time.monotonic(),
            )
            self._changed.notify_all()

    def after(
        self, running: Program | None, done: Callable[[dict[str, Any]], bool]
    ) -> tuple[dict[str, Any], float]:
        """Wait for a status that will do; it, and when it came. Raises MeasurementError."""
        with self._changed:
            came = self._changed.wait_for(lambda: done(self._status), _PATIENCE_SECONDS)
            if came:
                return self._status, self._came

            what = f"no such state was seen within {_PATIENCE_SECONDS:.0f} s"
            if running:
                raise running.failure(what)
            raise MeasurementError(what)


@contextmanager
def _statuses(client: ApiClient) -> Iterator[News]:
    """Watch the status of the ClusterTopology in a thread, from its present state on."""
    version = client.call(get(f"{PATH}/cluster"))["metadata"]["resourceVersion"]
    query = {
        "watch": "true",
        "resourceVersion": version,
        "timeoutSeconds": "600",
    }
    stream = client.stream(
        Request("GET", PATH, {**query, "fieldSelector": "metadata.name=cluster"}), _PATIENCE_SECONDS
    )
    news, ended = News(), threading.Event()

    def follow() -> None:
        try:
            for line in stream:
                news.put(line)
        except KubeError as error:
            # at the end we cut it ourselves; before, whoever waits reports what is missing
            if not ended.is_set():
                print(f"a watch ended: {error}", file=sys.stderr)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield news
    finally:
        ended.set()
        stream.interrupt()
        thread.join()
