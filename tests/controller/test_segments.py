"""Segments over time, and many of them; test_assess_segments.py has when one counts, and what it is called."""

from typing import Any

import msgspec
import pytest
from tests.support.cluster import RACK, History, gpu_node
from tests.support.tables import each_case
from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.controller.status_size import MOST_BYTES
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.controller_config import read_config
from toposcope.hierarchy.node import NodeFacts

TIER = "fabric.topograph.run/tier-0"
SPINE = "fabric.topograph.run/tier-1"
GRACE = 600.0


def settled(history: History, nodes: list[NodeFacts]) -> History:
    history.look(nodes)
    history.look(nodes, after=GRACE + 1)
    return history


def selector(history: History, name: str) -> list[dict[str, Any]]:
    (entry,) = (entry for entry in history.status["segments"] if entry["name"] == name)
    return entry["nodeSelector"]["matchExpressions"]


H100 = [gpu_node(f"h100-{i}") for i in range(4)]
GB200 = [gpu_node(f"gb200-{i}", {"block": None, "rack": None, TIER: "leaf"}) for i in range(5)]
RELABELLED = [*H100, *(gpu_node(f"gb200-{i}") for i in range(2))]
NODES = {"both": H100 + GB200[:2], "more": H100 + GB200, "h100": H100, "relabelled": RELABELLED, "none": []}


@pytest.mark.regression
@each_case("tables/controller.yaml")
def test_segments_over_time(policy: str, steps: str) -> None:
    """From two segments on: nodes, seconds later, and the nodes of each segment then."""
    history = settled(History(segments="Auto", removalPolicy=policy), NODES["both"])
    leaf = selector(history, "leaf")
    for step in steps.split(", "):
        if step == "restart":
            history.restart()
            continue
        name, seconds, *expected = step.split()
        before = set(history.segments)
        found = history.look(NODES[name], after=float(seconds)).segments
        assert [f"{segment}={count}" for segment, count in sorted(history.segments.items(), reverse=True)] == expected
        assert found is not None
        assert set(found.dropped) == before - set(history.segments)
        assert "leaf" not in history.segments or selector(history, "leaf") == leaf


def test_no_more_than_eight_are_listed_and_the_rest_is_summed_up() -> None:
    tiers = (TIER, SPINE, "fabric.topograph.run/tier-2", "topology.nebius.com/gpu-cluster-id", RACK)
    nodes = []
    for kind in range(32):
        mine: dict[str, str | None] = {key: "x" for bit, key in enumerate(tiers) if kind >> bit & 1}
        nodes += [gpu_node(f"kind-{kind:02}-{i}", {"block": None, "rack": None} | mine) for i in range(kind + 1)]
    history = settled(History(segments="Auto"), nodes)
    listed = history.status["segments"]
    rest = history.status["otherSegments"]
    assert len(listed) == 8
    assert rest["segments"] == 24 - 8  # two of the keys are of one domain
    assert sum(segment["nodes"] for segment in listed) + rest["nodes"] == len(nodes)
    assert rest["gpus"] == rest["nodes"] * 8
    assert "more segments are left out: 8 is the limit" in history.condition("SegmentsPublished")["message"]
    assert len(msgspec.json.encode(history.status)) < 16 << 10
    # Those that are listed stay so, whatever the others grow to.
    few = {f"kind-{kind:02}-0" for kind in range(32)}
    names = set(history.segments)
    history.look([node for node in nodes if node.name in few], after=1)
    assert set(history.segments) == names


def test_segments_with_the_longest_keys_and_a_large_selector_leave_the_status_small_and_stay_what_they_are() -> None:
    """Sixteen levels with keys of 63 characters, fifteen on each kind of node, below a selector of 250 values."""
    own = [f"d{i}-" + "x" * 60 for i in range(5)]
    built_in = [domain for domain in BUILT_IN.domains if domain != "host"]
    keys = [f"{domain[:40]}-".ljust(63, "x") for domain in (*own, *built_in)]
    config = "\n".join(
        (
            "apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue:\n  domains:",
            *(f"  - {{name: {name}, after: block, keys: [{key}]}}" for name, key in zip(own, keys, strict=False)),
            "  keys:",
            *(f"  - {{key: {key}, domain: {name}}}" for name, key in zip(built_in, keys[5:], strict=True)),
        )
    )
    values = ["pool", *(f"p{i:03}-" + "x" * 58 for i in range(249))]
    selects = {"matchExpressions": [{"key": "pool", "operator": "In", "values": values}]}
    nodes = []
    for kind, lacking in enumerate(keys[:12]):
        mine: dict[str, str | None] = {key: "v" for key in keys if key != lacking}
        mine |= {"pool": "pool", "zone": None, "block": None, "rack": None, NVLINK_DOMAIN: None}
        nodes += [gpu_node(f"{kind:02}-{i}-" + "n" * 240, mine) for i in range(kind + 1)]
    history = History(segments="Auto", nodeSelector=selects)
    found = read_config(config.encode(), "c")
    assert not found.problems
    history.catalogue = found.catalogue
    settled(history, nodes)
    status = history.status
    assert len(msgspec.json.encode(status)) <= MOST_BYTES
    listed, rest = status["segments"], status["otherSegments"]
    assert len(listed) >= 3
    assert sum(segment["nodes"] for segment in listed) + rest["nodes"] == len(nodes)
    assert all(segment["firstNodes"] and "nodeSelector" not in segment for segment in listed)
    assert f"{rest['segments']} more segments are left out: {len(listed)} is the limit" in str(status["conditions"])
    history.restart()
    history.look(nodes, after=1)
    assert history.status["segments"] == listed
    history.look(nodes, after=GRACE + 1)
    assert history.status == status
    # What a status leaves out about a segment without nodes is not made up.
    gone = {name for name, count in history.segments.items() if count == listed[-1]["nodes"]}
    history.look([node for node in nodes if not node.name.startswith(listed[-1]["firstNodes"][0][:2])], after=1)
    assert {segment["name"] for segment in history.status["segments"] if not segment["nodes"]} == gone
    assert history.status["segments"][-1]["levels"] == listed[-1]["levels"]
