"""Reads the streamed list of all Nodes, decodes each to `NodeFacts` and keeps those: what any controller must do."""

import os
from pathlib import Path

import msgspec

from tools.bench.programs import done
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.requests import NODES
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.node import NodeFacts

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
