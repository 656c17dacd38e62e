"""Reads the streamed list of all Nodes and throws the bytes away: what TLS and HTTP alone cost in Python."""

import http.client
import os
import ssl
from pathlib import Path

from tools.bench.programs import done

_TARGET = (
    "/api/v1/nodes?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    "&allowWatchBookmarks=true&timeoutSeconds=300"
)
_READ = 1 << 15
_TAIL = 1000


def main() -> int:
    """Read up to the bookmark that ends the list."""
    account = Path(os.environ["BENCH_ACCOUNT"])
    context = ssl.create_default_context(cafile=account / "ca.crt")
    connection = http.client.HTTPSConnection(
        os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]), context=context
    )
    connection.request("GET", _TARGET, headers={"Authorization": f"Bearer {(account / 'token').read_text()}"})
    answer = connection.getresponse()
    tail = b""
    while chunk := answer.read1(_READ):
        tail = (tail + chunk[-_TAIL:])[-2 * _TAIL :]  # the mark may come in two parts
        if b"k8s.io/initial-events-end" in tail:
            return done()
    return 1
