"""Runs pytest again and again on one kube-apiserver: a line of arguments each, answered with the exit code.

Started in the copy of the tree whose policies change; each run is a fork, which imports the tests anew.
"""

import json
import os
import re
import sys
from typing import Final

import pytest

from tools.apiserver import server
from tools.apiserver.client import HttpClient, wait_until
from tools.apiserver.server import RealApiServer, find_binaries

_LEFT: Final = re.compile(
    r"/registry/(events|leases|masterleases|peerserverleases|runtimeclasses|services|endpointslices|ipaddresses)/"
)
"""What an API server writes by itself once it is ready and later, and what tests leave and use again."""

_PATIENCE: Final = 10.0
"""Seconds: a policy is in force after one or two, and a mutant may refuse for ever what tests wait for."""


def main() -> None:
    """Answer until there are no more lines."""
    while True:
        with RealApiServer(find_binaries()) as running:
            server.SHARED.append(running)
            before = _stored(running)
            # A mutant may keep its tests from cleaning up, and the next one is not to suffer from that.
            while _stored(running) == before:
                if not (line := sys.stdin.readline()):
                    return
                print(_run(json.loads(line)), flush=True)
        server.SHARED.clear()


def _stored(running: RealApiServer) -> list[str]:
    return sorted(key for key in running.keys() if not _LEFT.match(key))  # noqa: SIM118 - a method of its own


def _run(arguments: list[str]) -> int:
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ours = server.SHARED[0]
    wait_until.__defaults__ = (_PATIENCE,)
    ours.client = HttpClient(ours.url, ours.ca_file, timeout=30)  # no connection has two ends here
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os._exit(pytest.main(arguments))


if __name__ == "__main__":
    main()
