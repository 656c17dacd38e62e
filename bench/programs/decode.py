"""Reads the streamed list of all Nodes, decodes each to `NodeFacts` and keeps those: what any controller must do."""

import os
from pathlib import Path

import msgspec

from bench.programs import done
from kube.client import ApiClient, Request
from kube.config import load
from kube.nodes import NodeDecoder
from kube.paths import NODES
from topology.catalogue import BUILT_IN
from topology.node import NodeFacts

_QUERY = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
    "timeoutSeconds": "300",
}
_IDLE_SECONDS = 60.0


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


def main() -> int:
    """Read up to the bookmark that ends the list."""
    decode_event, decode = msgspec.json.Decoder(_Event).decode, NodeDecoder(BUILT_IN.tracked)
    client = ApiClient(load(None, os.environ, Path(os.environ["BENCH_ACCOUNT"])))
    facts: dict[str, NodeFacts] = {}
    for line in client.stream(Request("GET", NODES, _QUERY), _IDLE_SECONDS):
        event = decode_event(line)
        if event.type == "BOOKMARK":
            return done(len(facts))
        name, _, facts[name] = decode(event.object)
    return 1
