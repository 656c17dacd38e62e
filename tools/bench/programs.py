"""Programs that the benchmarks start; each function is one process.

A function loads only what its name says. Whatever a program imports is part of what is measured, so
each imports what it needs when it begins. The environment is that of a pod; `BENCH_ACCOUNT` names
the folder that stands for its service account, `BENCH_SYSFS` a tree that stands for /sys, and
`BENCH_CALLS` the NVML calls of a probe.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the real one comes with a module that no program needs
if TYPE_CHECKING:
    import http.client
    from pathlib import Path

_INITIAL_EVENTS = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
    "timeoutSeconds": "300",
}
"""The query of a streamed list."""


def ready(word: object = "ready") -> int:
    """Say that what is to be measured is over, and stay until the benchmark has looked."""
    print(word, flush=True)
    sys.stdin.read()
    return 0


def interpreter() -> int:
    """Python with what any client of an API server needs, and nothing done with it."""
    for name in ("http.client", "json", "ssl"):
        __import__(name)
    return ready()


def nvml_calls() -> int:
    """Every NVML call of a probe, by NVIDIA's binding alone."""
    import marshal

    import pynvml

    from tools.bench.floor import ask

    with open(os.environ["BENCH_CALLS"], "rb") as file:  # noqa: PTH123 - pathlib is no part of a floor
        calls = marshal.load(file)  # noqa: S302 - this run wrote it
    pynvml.nvmlInit()
    ask(calls)
    return ready()


def patch() -> int:
    """Patch the Node `NODE_NAME` over TLS: no agent can start faster than this program."""
    import http.client
    import json
    from pathlib import Path

    name = os.environ["NODE_NAME"]
    connection = _connection(Path(os.environ["BENCH_ACCOUNT"]))
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"gpu.topology/gpus": "8"}},
    }
    path = f"/api/v1/nodes/{name}?fieldManager=bench&force=true"
    connection.request(
        "PATCH", path, json.dumps(body), {"Content-Type": "application/apply-patch+yaml"}
    )
    answer = connection.getresponse()
    answer.read()
    return 0 if answer.status == http.HTTPStatus.OK else 1


def serve() -> int:
    """The API server of a benchmark."""
    from tools.bench.serve import main

    main()
    return 0


def drain() -> int:
    """Read the streamed list of all Nodes and throw the bytes away: TLS and HTTP alone."""
    from pathlib import Path

    account = Path(os.environ["BENCH_ACCOUNT"])
    connection = _connection(account)
    parameters = [f"{name}={value}" for name, value in _INITIAL_EVENTS.items()]
    query = "&".join(parameters)
    token_file = account / "token"
    token = token_file.read_text()
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("GET", f"/api/v1/nodes?{query}", headers=headers)
    answer = connection.getresponse()

    tail = b""
    while chunk := answer.read1(1 << 15):
        tail += chunk[-1000:]
        tail = tail[-2000:]  # the mark may come in two parts
        if b"k8s.io/initial-events-end" in tail:
            return ready()
    return 1


def decode() -> int:
    """Read the list of all Nodes, decode each to `NodeFacts`, keep it: any controller must."""
    from pathlib import Path
    from typing import Any

    import msgspec

    from toposcope.controller.node_decoder import NodeDecoder
    from toposcope.hierarchy.catalogue import BUILT_IN
    from toposcope.kube.client import ApiClient, Request
    from toposcope.kube.config import load
    from toposcope.kube.requests import NODES

    event_type = msgspec.defstruct("Event", [("type", str), ("object", msgspec.Raw)], gc=False)
    decode_event, decode_node = (
        msgspec.json.Decoder(event_type).decode,
        NodeDecoder(BUILT_IN.tracked),
    )
    client = ApiClient(load(None, os.environ, Path(os.environ["BENCH_ACCOUNT"])))
    facts: dict[str, object] = {}
    for line in client.stream(Request("GET", NODES, _INITIAL_EVENTS), 60.0):
        event: Any = decode_event(line)
        if event.type == "BOOKMARK":
            return ready(len(facts))
        name, _, facts[name] = decode_node(event.object)
    return 1


def controller() -> int:
    """`toposcope controller` as it runs in a pod."""
    from toposcope.cli.main import main

    _in_pod()
    return main(["controller", *sys.argv[1:]])


def ui() -> int:
    """`toposcope ui` as it runs in a pod, on a free port that it says."""
    _in_pod()
    from toposcope.telemetry.logs import set_up
    from toposcope.ui.program import listening, of_cluster

    set_up("text")
    program = of_cluster(None)
    with listening("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)
        program.serve(listener)
    return 0


def node_endpoint() -> int:
    """`toposcope node-endpoint` with these flags."""
    sys.argv[:1] = ["toposcope", "node-endpoint"]
    from toposcope.cli.main import main

    return main()


def agent() -> int:
    """`toposcope agent` as it runs in a pod."""
    from toposcope.agent.nvml.process import fork_early
    from toposcope.cli.streams import open_all

    open_all()
    fork_early()
    import argparse

    from toposcope.agent.gc_tuning import loading

    with loading():  # as toposcope.cli.main and toposcope.cli.agent do
        from toposcope.agent.nvml.gateway import open_pynvml
        from toposcope.agent.nvml.supervisor import ProbeProcess
        from toposcope.agent.options import options
        from toposcope.cli.agent import add_arguments
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = options(parser, arguments)
    with ProbeProcess(open_pynvml, arguments.sysfs) as probe:
        with loading():
            from toposcope.agent.run import run  # after the fork, as in toposcope.cli.agent
        _in_pod()
        return run(chosen, probe)


def _in_pod() -> None:
    """Have the program find the service account of this benchmark where a pod has its own."""
    from pathlib import Path

    from toposcope.kube.config import load

    load.__defaults__ = (os.environ, Path(os.environ["BENCH_ACCOUNT"]), None)


def _connection(account: Path) -> http.client.HTTPSConnection:
    import http.client
    import ssl

    return http.client.HTTPSConnection(
        os.environ["KUBERNETES_SERVICE_HOST"],
        int(os.environ["KUBERNETES_SERVICE_PORT"]),
        context=ssl.create_default_context(cafile=account / "ca.crt"),
    )
