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
    for entry in history.status["segments"]:
        if entry["name"] == name:
            expressions: list[dict[str, Any]] = entry["nodeSelector"]["matchExpressions"]
            return expressions
    raise AssertionError(f"no segment {name}")


H100 = gpu_nodes("h100-", 4)
GB200 = gpu_nodes(
    "gb200-",
    5,
    {"block": None, "rack": None, TIER: "leaf"},
)
BOTH = [*H100, *GB200[:2]]
RELABELLED = [*H100, *gpu_nodes("gb200-", 2)]
ALL_IN_RACKS = {"rack": 6, "leaf": 0}


@pytest.fixture
def two_segments() -> History:
    """Where both kinds of nodes have a segment."""
    return settled(History(segments="Auto"), BOTH)


def segments_after(history: History, nodes: list[NodeFacts], seconds: float) -> dict[str, int]:
    """The nodes of each segment so many seconds later.

    A segment that is gone is told as dropped, and one that stays has the selector that it had.
    """
    before = history.segments
    selectors = {}
    for name in before:
        selectors[name] = selector(history, name)
    segments = history.look(nodes, after=seconds).segments
    assert segments is not None
    gone = set(before) - set(history.segments)
    assert set(segments.dropped) == gone
    if "leaf" in before and "leaf" in history.segments:
        assert selector(history, "leaf") == selectors["leaf"]
    return history.segments


@pytest.mark.regression
class TestSegmentsOverTime:
    def test_names_outlive_a_restart(self, two_segments: History) -> None:
        two_segments.restart()
        assert segments_after(two_segments, BOTH, 1) == {"rack": 4, "leaf": 2}

    def test_nodes_with_other_levels_end_it_after_the_grace_period(self, two_segments: History) -> None:
        assert segments_after(two_segments, RELABELLED, 1) == ALL_IN_RACKS
        assert segments_after(two_segments, RELABELLED, 599) == ALL_IN_RACKS
        assert segments_after(two_segments, RELABELLED, 2) == {"rack": 6}

    def test_restart_does_not_end_it_earlier(self, two_segments: History) -> None:
        assert segments_after(two_segments, RELABELLED, 0) == ALL_IN_RACKS
        assert segments_after(two_segments, RELABELLED, 599) == ALL_IN_RACKS
        two_segments.restart()
        assert segments_after(two_segments, RELABELLED, 600) == ALL_IN_RACKS
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
            assert segments_after(history, RELABELLED, 6000) == ALL_IN_RACKS


def check_counts(status: dict[str, Any], nodes: list[NodeFacts]) -> None:
    """Each node is in a listed segment or counted with the others."""
    counted = status["otherSegments"]["nodes"]
    for segment in status["segments"]:
        counted += segment["nodes"]
    assert counted == len(nodes)


def kinds_of_nodes() -> list[NodeFacts]:
    """One node with none of five keys, two with the first, and so on up to 32 with all."""
    tiers = (
        TIER,
        SPINE,
        "fabric.topograph.run/tier-2",
        "topology.nebius.com/gpu-cluster-id",
        RACK,
    )
    nodes = []
    for kind in range(32):
        labels: dict[str, str | None] = {"block": None, "rack": None}
        for bit, key in enumerate(tiers):
            if kind >> bit & 1:
                labels[key] = "x"
        for i in range(kind + 1):
            nodes.append(gpu_node(f"kind-{kind:02}-{i}", labels))
    return nodes


def test_no_more_than_eight_are_listed_and_the_rest_is_summed_up() -> None:
    nodes = kinds_of_nodes()
    history = settled(History(segments="Auto"), nodes)
    rest = history.status["otherSegments"]
    assert len(history.status["segments"]) == 8
    assert rest["segments"] == 24 - 8  # two of the keys are of one domain
    check_counts(history.status, nodes)
    assert rest["gpus"] == rest["nodes"] * 8
    message = history.message("SegmentsPublished")
    assert "more segments are not published: the limit is 8" in message
    assert len(msgspec.json.encode(history.status)) < 16 << 10
    # Those that are listed stay so, whatever the others grow to.
    names = set(history.segments)
    first_of_each_kind = []
    for node in nodes:
        if node.name.endswith("-0"):
            first_of_each_kind.append(node)
    history.look(first_of_each_kind, after=1)
    assert set(history.segments) == names


def longest_keys() -> tuple[list[str], str]:
    """Sixteen keys of 63 characters, and the configuration that makes them levels: five of domains of its own."""
    own = [f"d{i}-" + "x" * 60 for i in range(5)]
    built_in = [domain for domain in BUILT_IN.domains if domain != "host"]
    keys = []
    for domain in (*own, *built_in):
        keys.append(f"{domain[:40]}-".ljust(63, "x"))
    lines = [
        "apiVersion: config.gpu.topology/v1alpha1",
        "kind: ControllerConfig",
        "catalogue:",
        "  domains:",
    ]
    for domain, key in zip(own, keys, strict=False):
        lines.append(f"  - {{name: {domain}, after: block, keys: [{key}]}}")
    lines.append("  keys:")
    for domain, key in zip(built_in, keys[5:], strict=True):
        lines.append(f"  - {{key: {key}, domain: {domain}}}")
    return keys, "\n".join(lines)


def nodes_that_lack_a_key(keys: list[str]) -> list[NodeFacts]:
    """One that lacks the first key, two that lack the second, and so on."""
    nodes = []
    for kind, lacking in enumerate(keys[:12]):
        labels: dict[str, str | None] = {}
        for key in keys:
            if key != lacking:
                labels[key] = "v"
        labels |= {
            "pool": "pool",
            "zone": None,
            "block": None,
            "rack": None,
            NVLINK_DOMAIN: None,
        }
        for i in range(kind + 1):
            nodes.append(gpu_node(f"{kind:02}-{i}-" + "n" * 240, labels))
    return nodes


def test_segments_with_longest_keys_and_selector_leave_the_status_small() -> None:
    """Sixteen levels with keys of 63 characters, fifteen on each kind of node, below a selector of 250 values."""
    keys, config = longest_keys()
    pools = [f"p{i:03}-" + "x" * 58 for i in range(249)]
    in_pools = {
        "key": "pool",
        "operator": "In",
        "values": ["pool", *pools],
    }
    nodes = nodes_that_lack_a_key(keys)
    history = History(
        segments="Auto",
        nodeSelector={"matchExpressions": [in_pools]},
    )
    found = read_config(config.encode(), "c")
    assert not found.problems
    history.catalogue = found.catalogue
    settled(history, nodes)
    status = history.status
    assert len(msgspec.json.encode(status)) <= MOST_BYTES
    listed = status["segments"]
    rest = status["otherSegments"]
    assert len(listed) >= 3
    check_counts(status, nodes)
    for segment in listed:
        assert segment["firstNodes"]
        assert "nodeSelector" not in segment
    left_out = f"{rest['segments']} more segments are not published: the limit is {len(listed)}"
    assert left_out in str(status["conditions"])
    history.restart()
    history.look(nodes, after=1)
    assert history.status["segments"] == listed
    history.look(nodes, after=GRACE + 1)
    assert history.status == status
    # What a status leaves out about a segment without nodes is not made up.
    smallest = listed[-1]
    gone = []
    for name, count in history.segments.items():
        if count == smallest["nodes"]:
            gone.append(name)
    kind = smallest["firstNodes"][0][:2]
    others = []
    for node in nodes:
        if not node.name.startswith(kind):
            others.append(node)
    history.look(others, after=1)
    empty = []
    for segment in history.status["segments"]:
        if not segment["nodes"]:
            empty.append(segment["name"])
    assert set(empty) == set(gone)
    assert history.status["segments"][-1]["levels"] == smallest["levels"]
