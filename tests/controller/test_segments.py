"""Segments over time: when one counts, what it is called, when it goes."""

from typing import Any

import msgspec

from tests.support.cluster import BLOCK, RACK, ZONE, History, gpu_node
from tests.support.tables import each_case
from toposcope.api.controller_config import read_config
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.status_size import MOST_BYTES
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.node import NodeFacts

TIER = "fabric.topograph.run/tier-0"
SPINE = "fabric.topograph.run/tier-1"
GRACE = 600.0


def h100(count: int = 4) -> list[NodeFacts]:
    return [gpu_node(f"h100-{i}") for i in range(count)]


def gb200(count: int = 2, **labels: str) -> list[NodeFacts]:
    return [gpu_node(f"gb200-{i}", {"block": None, "rack": None, TIER: "leaf"} | labels) for i in range(count)]


def exist(*keys: str) -> list[dict[str, str]]:
    return [{"key": key, "operator": "Exists"} for key in keys]


def relabelled() -> list[NodeFacts]:
    """All nodes with the labels of H100."""
    return [*h100(), *(gpu_node(f"gb200-{i}") for i in range(2))]


def two_segments(**spec: Any) -> History:
    return settled(History(**spec), h100() + gb200())


def settled(history: History, nodes: list[NodeFacts]) -> History:
    history.look(nodes)
    history.look(nodes, after=GRACE + 1)
    return history


def selector(history: History, name: str) -> list[dict[str, Any]]:
    (entry,) = (entry for entry in history.status["segments"] if entry["name"] == name)
    return entry["nodeSelector"]["matchExpressions"]


def test_nodes_that_are_alike_have_no_segments_and_no_condition() -> None:
    history = settled(History(), h100())
    assert "segments" not in history.status
    assert history.condition("SegmentsPublished") == {}


def test_two_kinds_of_hardware_are_two_segments_after_the_grace_period() -> None:
    history = History()
    history.look(h100() + gb200())
    assert history.segments == {}
    young = history.condition("SegmentsPublished")
    assert (young["status"], young["reason"]) == ("True", "SegmentsOff")
    assert "gb200-0, gb200-1 (2 nodes: zone > leaf > nvlink-domain > host)" in young["message"]
    history.look(h100() + gb200(), after=GRACE + 1)
    assert history.segments == {"rack": 4, "leaf": 2}
    assert history.condition("SegmentsPublished")["status"] == "True"
    assert "SegmentsPublished" not in history.condition("Ready")["message"]
    assert history.status["segments"][0] == {
        "name": "rack",
        "nodes": 4,
        "gpus": 32,
        "firstNodes": ["h100-0", "h100-1", "h100-2"],
        "levels": [
            {"domain": "zone", "key": ZONE},
            {"domain": "block", "key": BLOCK},
            {"domain": "rack", "key": RACK},
            {"domain": "nvlink-domain", "key": NVLINK_DOMAIN},
            {"domain": "host", "key": HOSTNAME},
        ],
        "nodeSelector": {"matchExpressions": exist(GPUS, BLOCK, RACK)},
    }
    message = history.condition("SegmentsPublished")["message"]
    assert "rack (4 nodes: zone > block > rack > nvlink-domain > host), leaf (2 nodes: zone > leaf" in message
    assert "set spec.segments to Auto to get one for each segment" in message


def test_levels_that_a_segment_has_need_no_hint() -> None:
    history = History()
    history.look(h100() + gb200())
    assert {hint["reason"] for hint in history.status["hints"]} == {"PartlyCovered"}
    history.look(h100() + gb200(), after=GRACE + 1)
    assert "hints" not in history.status


def test_a_node_that_joins_before_its_labels_is_no_segment() -> None:
    history = two_segments(segments="Auto")
    bare = gpu_node("h100-9", {"block": None, "rack": None})
    found = history.look([*h100(), *gb200(), bare], after=60)
    assert history.segments == {"rack": 4, "leaf": 2}
    assert found.segments is not None
    assert (found.segments.unassigned, found.segments.unassigned_names) == (1, ("h100-9",))
    message = history.condition("SegmentsPublished")["message"]
    assert "1 node is in no segment: h100-9" in message
    assert "newer than gracePeriod (10m): h100-9 (1 node: zone > nvlink-domain > host)" in message
    # Its labels come, and there never was anything.
    history.look([*h100(), *gb200(), gpu_node("h100-9")], after=60)
    assert history.segments == {"rack": 5, "leaf": 2}
    # Another node, much later, is as new.
    history.look([*h100(), *gb200(), bare], after=GRACE)
    assert history.segments == {"rack": 4, "leaf": 2}


def test_names_come_from_the_levels_and_not_from_the_counts() -> None:
    bare = [gpu_node(f"plain-{i}", {"block": None, "rack": None}) for i in range(9)]
    one = settled(History(), h100() + gb200() + bare)
    assert one.segments == {"base": 9, "rack": 4, "leaf": 2}
    other = settled(History(), bare[:1] + gb200(7) + h100(5))
    assert other.segments == {"leaf": 7, "rack": 5, "base": 1}


def test_two_segments_that_would_have_one_name_get_a_hash_of_their_keys() -> None:
    spine = [gpu_node(f"spine-{i}", {"block": None, "rack": None, TIER: "l", SPINE: "s"}) for i in range(3)]
    history = settled(History(), h100() + gb200() + spine)
    (plain, second) = sorted(name for name in history.segments if name.startswith("leaf"))
    assert plain != second
    assert {len(plain), len(second)} == {len("leaf-123456")}
    assert set(settled(History(), spine + gb200(7) + h100(9)).segments) == set(history.segments)
    # One that was there first keeps the short name.
    first = two_segments()
    first.look(h100() + gb200() + spine)
    first.look(h100() + gb200() + spine, after=GRACE + 1)
    assert {"rack", "leaf"} < set(first.segments) <= {"rack", "leaf", plain, second}
    assert len(first.segments) == 3
    assert first.segments["leaf"] == 2


def test_a_single_node_does_not_change_the_name_of_a_segment_of_several() -> None:
    liar = gpu_node("liar", {"block": None, "rack": None, TIER: "l", SPINE: "s"})
    history = settled(History(), [*h100(), *gb200(), liar])
    (other,) = set(history.segments) - {"rack", "leaf"}
    assert other.startswith("leaf-")
    assert history.segments == {"rack": 4, "leaf": 2, other: 1}
    assert set(settled(History(), [*h100(), *gb200(1), liar]).segments) > {"rack", other}


NODES = {"both": h100() + gb200(), "more": h100() + gb200(5), "h100": h100(), "relabelled": relabelled(), "none": []}


@each_case("tables/controller.yaml")
def test_segments_over_time(policy: str, steps: str) -> None:
    """From two segments on: nodes, seconds later, and the nodes of each segment then."""
    history = two_segments(segments="Auto", removalPolicy=policy)
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


def test_segments_that_are_off_leave_no_trace_once_all_nodes_are_alike() -> None:
    history = two_segments()
    history.look(relabelled())
    history.look(relabelled(), after=GRACE + 1)
    history.look(relabelled(), after=1)
    assert "segments" not in history.status
    assert history.condition("SegmentsPublished") == {}


def test_a_level_that_one_node_lost_is_missed_there_and_no_new_segment_at_once() -> None:
    history = settled(History(), h100())
    history.look([*h100(3), gpu_node("h100-3", {"rack": None})], after=1)
    assert "1 of 4 nodes lacks level 'rack'" in history.condition("LevelsCovered")["message"]
    assert history.segments == {}


def test_the_parent_s_own_selector_is_part_of_each() -> None:
    lacks_old = {"key": "old", "operator": "DoesNotExist"}
    pool = {"matchLabels": {"pool": "a"}, "matchExpressions": [lacks_old]}
    nodes = [gpu_node(f"h100-{i}", {"pool": "a"}) for i in range(3)] + gb200(pool="a")
    history = settled(History(nodeSelector=pool), [*nodes, gpu_node("h100-9")])
    assert history.segments == {"rack": 3, "leaf": 2}
    assert history.status["segments"][1]["nodeSelector"] == {
        "matchLabels": {"pool": "a"},
        "matchExpressions": [lacks_old, *exist(TIER)],
    }


def test_levels_of_the_spec_are_not_divided() -> None:
    assert two_segments(levels=[{"domain": "rack", "key": RACK}]).segments == {}


def test_a_required_level_that_only_a_segment_has_is_not_missed_in_the_whole() -> None:
    history = two_segments(segments="Auto", required=["rack"])
    assert history.condition("TopologyLevelsAvailable")["status"] == "True"
    off = two_segments(required=["rack"])
    assert off.condition("TopologyLevelsAvailable")["status"] == "False"


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


def test_values_that_are_renumbered_change_nothing() -> None:
    """Hashed values of Topograph and AWS may all be others after a run; only which key is there counts."""
    history = two_segments(segments="Auto")
    before = history.status
    renumbered = [gpu_node(f"h100-{i}", {"block": "x00ff00ff00ff00ff", "rack": "x1234567812345678"}) for i in range(4)]
    history.look(renumbered + gb200(), after=1)
    assert history.status == before
