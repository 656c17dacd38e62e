"""Run the embedded API server as a program: `python -m toposcope.simulator.apiserver --kubeconfig FILE`."""

from __future__ import annotations

import argparse
import signal
import threading
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver import EmbeddedApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator


def _nodes(count: int) -> Iterator[dict[str, Any]]:
    for index in range(count):
        name = f"node-{index:05d}"
        labels = {"kubernetes.io/hostname": name}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m toposcope.simulator.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--kubeconfig", help="where to write a kubeconfig for this server")
    parser.add_argument("--nodes", type=int, default=0, help="how many bare nodes to begin with")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with EmbeddedApiServer(port=options.port) as server:
        server.load(_nodes(options.nodes))
        if options.kubeconfig:
            server.write_kubeconfig(options.kubeconfig)
        print(server.url, flush=True)  # noqa: T201 - whoever started this waits for the line
        stop.wait()


if __name__ == "__main__":
    main()
