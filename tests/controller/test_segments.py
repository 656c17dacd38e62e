"""Segments over time, and many of them; test_assess_segments.py has when one counts, and what it is called."""

from typing import Any

import msgspec
import pytest
from tests.support.cluster import RACK, History, gpu_node, gpu_nodes
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


H100 = gpu_nodes("h100-", 4)
GB200 = gpu_nodes("gb200-", 5, {"block": None, "rack": None, TIER: "leaf"})
BOTH = [*H100, *GB200[:2]]
RELABELLED = [*H100, *gpu_nodes("gb200-", 2)]


@pytest.fixture
def two_segments() -> History:
    """Where both kinds of nodes have a segment."""
    return settled(History(segments="Auto"), BOTH)


def segments_after(history: History, nodes: list[NodeFacts], seconds: float) -> dict[str, int]:
    """The nodes of each segment so many seconds later.

    A segment that is gone is told as dropped, and one that stays has the selector that it had.
    """
    before = history.segments
    selectors = {name: selector(history, name) for name in before}
    segments = history.look(nodes, after=seconds).segments
    assert segments is not None
    assert set(segments.dropped) == set(before) - set(history.segments)
    if "leaf" in before and "leaf" in history.segments:
        assert selector(history, "leaf") == selectors["leaf"]
    return history.segments


@pytest.mark.regression
class TestSegmentsOverTime:
    def test_names_outlive_a_restart(self, two_segments: History) -> None:
        two_segments.restart()
        assert segments_after(two_segments, BOTH, 1) == {"rack": 4, "leaf": 2}

    def test_nodes_with_other_levels_end_it_after_the_grace_period(self, two_segments: History) -> None:
        assert segments_after(two_segments, RELABELLED, 1) == {"rack": 6, "leaf": 0}
        assert segments_after(two_segments, RELABELLED, 599) == {"rack": 6, "leaf": 0}
        assert segments_after(two_segments, RELABELLED, 2) == {"rack": 6}

    def test_restart_does_not_end_it_earlier(self, two_segments: History) -> None:
        assert segments_after(two_segments, RELABELLED, 0) == {"rack": 6, "leaf": 0}
        assert segments_after(two_segments, RELABELLED, 599) == {"rack": 6, "leaf": 0}
        two_segments.restart()
        assert segments_after(two_segments, RELABELLED, 600) == {"rack": 6, "leaf": 0}
        assert segments_after(two_segments, RELABELLED, 601) == {"rack": 6}

    def test_segment_scaled_to_zero_stays(self, two_segments: History) -> None:
        for _ in range(5):
            assert segments_after(two_segments, H100, 6000) == {"rack": 4, "leaf": 0}
        assert segments_after(two_segments, [*H100, *GB200], 1) == {"rack": 4, "leaf": 5}

    def test_no_nodes_are_no_evidence(self, two_segments: History) -> None:
        assert segments_after(two_segments, [], 6000) == {"rack": 0, "leaf": 0}
        assert segments_after(two_segments, BOTH, 1) == {"rack": 4, "leaf": 2}

    def test_retain_keeps_it(self) -> None:
        history = settled(History(segments="Auto", removalPolicy="Retain"), BOTH)
        for _ in range(3):
            assert segments_after(history, RELABELLED, 6000) == {"rack": 6, "leaf": 0}


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


def test_segments_with_longest_keys_and_selector_leave_the_status_small() -> None:
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
