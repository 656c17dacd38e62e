"""The controller with hundreds of ClusterTopologies over few nodes.

Measured are passes, memory, metrics, and a level lost meanwhile.
"""

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tools.apiserver.server import free_port
from tools.bench.controller import STATUS, compile_programs, merge, topology
from tools.bench.report import Figure, Sample, Target
from tools.bench.usage import idle, peak_memory
from tools.bench.workspace import ApiServer, MeasurementError, Program, cluster, program
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.api.conditions import LEVELS_AVAILABLE, previous
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.requests import NODES, create, get
from toposcope.simulator.cluster import RACK_KEY, ZONE_KEY

_NODE_COUNT: Final = 9
_CPU: Final = {100: Target(1), 1_000: Target(10)}
"""ClusterTopologies to the target for a pass, in seconds."""
_MIB: Final = 1 << 20
_GLANCE_SECONDS: Final = 0.02
_WHILE_SECONDS: Final = 1.0
"""Seconds: longer than a busy server takes to answer."""
_LITTLE_SECONDS: Final = 0.01
_LIMIT_MIB: Final = 256
"""MiB, as in the manifests."""


def topologies_figures(*, quick: bool) -> Iterator[Figure]:
    """Passes that write every status.

    Topologies beyond the supported number say so once and cost no more.
    """
    compile_programs()
    for count, target in _CPU.items():
        if quick and count > min(_CPU):
            return
        with cluster(_NODE_COUNT) as (folder, server):
            yield from _figures(folder, server, count, target)


def _figures(folder: Path, server: ApiServer, count: int, target: Target) -> Iterator[Figure]:
    port = free_port()
    client = server.client()
    _create_topologies(client, count)
    with program("controller", server.environment, folder, "--metrics-port", str(port)) as running:
        server.wait(running, "await", *STATUS)
        first = idle(running.pid, moment=_WHILE_SECONDS, nothing=_LITTLE_SECONDS)
        _check_all_told(client)
        label(client, server, running, ZONE_KEY, "own")
        again = idle(running.pid, moment=_WHILE_SECONDS, nothing=_LITTLE_SECONDS) - first
        lost = _lost(client, server, running)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            size = len(answer.read())
        peak = peak_memory(running.pid)
    name = f"{count:,} ClusterTopologies over {_NODE_COUNT} nodes"
    yield Figure(
        f"{name}, from the start to the last status, CPU",
        Sample((first,), "s"),
    )
    yield Figure(
        "  a pass that writes every status, CPU",
        Sample((again,), "s"),
        target,
    )
    yield Figure(
        "  a required level lost in such a pass, until it is reported",
        Sample((lost,), "s"),
        Target(5),
    )
    yield Figure(
        "  peak memory",
        Sample((peak / _MIB,), "MiB"),
        Target(_LIMIT_MIB),
    )
    yield Figure(
        "  metrics, each time they are read",
        Sample((size / _MIB,), "MiB"),
        Target(2),
    )


def _create_topologies(client: ApiClient, count: int) -> None:
    """All but one, which is there and gets a level that it requires."""
    spec: dict[str, Any] = {"publish": {"kai": "Never"}}
    for number in range(count - 1):
        topology = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": f"topology-{number:04}"},
            "spec": spec,
        }
        request = create(PATH, topology, "bench")
        client.call(request)

    requiring = {
        **spec,
        "required": ["rack"],
        "gracePeriod": "0s",
    }
    request = merge(f"{PATH}/cluster", {"spec": requiring})
    client.call(request)


def _check_all_told(client: ApiClient) -> None:
    topologies = client.call(get(PATH))["items"]
    silent = 0
    for item in topologies:
        if item.get("status") is None:
            silent += 1

    if silent:
        total = len(topologies)
        raise MeasurementError(f"{silent} of {total} have no status")


def label(
    client: ApiClient, server: ApiServer, running: Program, key: str, value: str | None
) -> None:
    """Label all nodes and wait for the status that follows; the value `own` is each node's name."""
    server.tell("forget")
    listed = client.call(Request("GET", NODES, {}))
    for node in listed["items"]:
        name = node["metadata"]["name"]
        own_value = value
        if value == "own":
            own_value = name

        labels = {key: own_value}
        change = merge(f"{NODES}/{name}", {"metadata": {"labels": labels}})
        client.call(change)
    server.wait(running, "await", *STATUS)


def _lost(client: ApiClient, server: ApiServer, running: Program) -> float:
    """Seconds from the loss of a required level until the condition says so, with the debounce."""
    label(client, server, running, ZONE_KEY, "one")
    began = time.monotonic()
    label(client, server, running, RACK_KEY, None)
    while True:
        condition = previous(topology(client)["status"], LEVELS_AVAILABLE)
        if condition and condition["status"] == "False":
            return time.monotonic() - began
        running.check()
        time.sleep(_GLANCE_SECONDS)
