"""What the controller concludes from nodes, over time and on thin evidence; topologies that select the same ones."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE, History, gpu_node, topology
from tests.support.paths import FIXTURES, SHARED
from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import Condition
from toposcope.api.label_keys import GPU_PRESENT, HOSTNAME, NVLINK_DOMAIN
from toposcope.api.yaml_text import load
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.assess.availability import judge, unsynced
from toposcope.controller.assess.diagnostics import MOST_DIAGNOSTICS
from toposcope.controller.assess.selection import disjoint_condition, overlaps, selected
from toposcope.controller.memory import Memory
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.node import NodeFacts, node_facts
from toposcope.hierarchy.table import Table

FULL = "zone > block > rack > nvlink-domain > host"
NO_RACK = "zone > block > nvlink-domain > host"


def available(history: History) -> dict[str, Any]:
    return history.condition("TopologyLevelsAvailable")


def condition(found: Assessment, kind: str) -> Condition:
    for of_assessment in found.conditions:
        if of_assessment.type == kind:
            return of_assessment
    raise AssertionError(f"no condition {kind}")


def nodes(count: int = 4, **labels: str | None) -> list[NodeFacts]:
    made = []
    for i in range(count):
        made.append(gpu_node(f"n{i}", labels))
    return made


@pytest.mark.regression
def test_levels_that_are_no_longer_required_are_forgotten() -> None:
    """Workloads come and go, and each may require a level that no node has; so may each edit of a spec name one."""
    history = History(required=["rack"])
    history.look(nodes())
    for number in range(5):
        unknown_level = {"domain": "x", "key": f"example.com/{number}"}
        history.spec = {
            "required": [f"level-{number}"],
            "levels": [unknown_level],
        }
        history.look(nodes(), after=1.0)
        assert len(history.memory.levels.gone._since) == 1
        assert len(history.memory.unavailable._since) == 1
    history.spec = {}
    for _ in range(2):
        history.look(nodes(), after=100000.0)
    deadline = history.memory.next_deadline(600.0, history.now)
    assert deadline is None


@pytest.mark.regression
@pytest.mark.parametrize(
    ("without", "total", "percent", "level"),
    [
        pytest.param(1, 8, None, False, id="1-of-8"),
        pytest.param(1, 20, None, True, id="1-of-20"),
        pytest.param(5, 100, None, True, id="5-of-100"),
        pytest.param(6, 100, None, False, id="6-of-100"),
        pytest.param(1, 8, 87, True, id="1-of-8-for-87-percent"),
        pytest.param(1, 8, 88, False, id="1-of-8-for-88-percent"),
        pytest.param(1, 1000, 100, False, id="1-of-1000-for-all"),
        pytest.param(7, 8, 1, True, id="7-of-8-for-1-percent"),
    ],
)
def test_a_level_is_what_nearly_all_nodes_carry(without: int, total: int, percent: int | None, level: bool) -> None:
    spec = {} if percent is None else {"minCoveragePercent": percent}
    bare = []
    for i in range(without):
        rack = "no-topology" if i % 2 else None
        bare.append(gpu_node(f"bare-{i}", {"rack": rack}))
    found = History(**spec).look([*nodes(total - without), *bare])
    path = FULL if level else NO_RACK
    assert found.effective.path == path
    covered = condition(found, "LevelsCovered")
    assert covered.status == "False"
    assert covered.reason == "NodesMissingLevels"
    assert "bare-0" in covered.message
    says_left_out = "Kueue and KAI skip a node that lacks a level" in covered.message
    assert says_left_out == level
    no_level = f"({RACK}) is on {total - without} of {total} nodes and not a level"
    assert (no_level in covered.message) != level


@pytest.mark.regression
def test_message_stays_short_for_long_names_and_many_labels() -> None:
    keys = []
    for domain, of_domain in BUILT_IN.keys.items():
        if domain not in ("host", "nvlink-domain"):
            keys.append(of_domain[0])
    bare = []
    for i in range(10):
        name = f"bare-{i}" + "x" * 240
        bare.append(gpu_node(name, {"zone": None, "block": None, "rack": None}))
    labelled = []
    for i in range(12):
        labelled.append(gpu_node(f"n{i}", dict.fromkeys(keys, "v")))
    found = History().look([*labelled, *bare])
    message = condition(found, "LevelsCovered").message
    assert message.endswith("more such labels: toposcope levels")
    assert len(message) < 3000
    assert "bare-0" in message


def test_preferred_levels_are_missed_after_the_grace_period() -> None:
    memory = Memory()
    racks = ("rack",)

    def missed(now: float, *required: str, status: dict[str, Any] | None = None) -> tuple[str, ...]:
        asked = topology(status, gracePeriod="1m")
        verdict = judge(
            asked,
            (),
            memory,
            now,
            required=required,
            preferred=racks,
        )
        return verdict.missed

    assert missed(0) == ()
    assert missed(61) == racks
    assert missed(61, "zone") == racks
    assert missed(122, "zone") == racks
    memory = Memory()
    unavailable = {"domain": "rack", "workloads": 1, "available": False}
    status = {"preferredBy": [unavailable]}
    assert missed(200, status=status) == racks
    history = History()
    history.status = status
    assert history.look([]).missed == racks
    history.preferred = ("host",)
    assert history.look(nodes()).missed == ()


def test_before_the_nodes_are_listed_nothing_is_known() -> None:
    text = "The nodes of the cluster have not been listed yet: why"
    assert unsynced("why") == Condition(
        "TopologyLevelsAvailable",
        "Unknown",
        "NodesNotSynced",
        text,
    )


@pytest.mark.parametrize(
    ("key", "reporting"),
    [
        pytest.param(HOSTNAME, "True", id="hostname"),
        pytest.param(GPU_PRESENT, "False", id="gpu-present"),
        pytest.param(NVLINK_DOMAIN, "False", id="nvlink-domain"),
    ],
)
def test_node_without_gpus_is_ignored_unless_a_label_says_otherwise(key: str, reporting: str) -> None:
    plain = node_facts(
        "web",
        "u",
        (key,),
        ("true",),
        is_ready=True,
        is_schedulable=True,
        gpus=0,
    )
    found = History().look([*nodes(2), plain])
    assert condition(found, "AgentsReporting").status == reporting
    assert condition(found, "LevelsCovered").status == "True"


def test_transition_times_move_with_the_status_only() -> None:
    history = History(required=["rack"])
    history.look(nodes())
    first = history.status["conditions"]
    for stamp in first:
        stamp["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    history.look([*nodes(), gpu_node("n9", {"rack": None})])
    times = {}
    for stamped in history.status["conditions"]:
        times[stamped["type"]] = stamped["lastTransitionTime"]
    assert times["TopologyLevelsAvailable"] == "2020-01-01T00:00:00Z"
    assert times["LevelsCovered"] == "2026-01-02T03:04:05Z"


def test_the_status_of_a_huge_cluster_is_small() -> None:
    many = []
    for number in range(3000):
        labels = {
            "rack": None if number % 2 else f"r{number}",
            "block": f"b{number // 100}",
        }
        many.append(gpu_node(f"node-{number}", labels))
    history = History(
        levels=[
            {"domain": "zone", "key": ZONE},
            {"domain": "block", "key": BLOCK},
            {"domain": "rack", "key": RACK},
        ]
    )
    history.look(many)
    assert len(str(history.status)) < 8192
    for level in history.status["levels"]:
        assert len(level.get("missingNodes", ())) <= 10
    racks = history.level("rack")
    assert len(racks["missingNodes"]) == 10


def sixteen_nodes() -> list[NodeFacts]:
    """Four racks in two blocks."""
    made = []
    for i in range(16):
        labels = {"rack": f"r{i // 4}", "block": f"b{i // 8}"}
        made.append(gpu_node(f"n{i}", labels))
    return made


SIXTEEN = Table(sixteen_nodes())


def named(name: str, labels: dict[str, str]) -> Topology:
    keys = {"block": BLOCK, "rack": RACK}
    spec: dict[str, Any] = {}
    if labels:
        match_labels = {keys[key]: value for key, value in labels.items()}
        spec["nodeSelector"] = {"matchLabels": match_labels}
    return replace(topology(**spec), name=name, uid=name)


@pytest.mark.parametrize(
    ("topologies", "owner", "shared"),
    [
        pytest.param(
            {"all": {}, "b0": {"block": "b0"}, "r3": {"rack": "r3"}},
            None,
            {"all": {"b0": 8, "r3": 4}, "b0": {"all": 8}, "r3": {"all": 4}},
            id="of-a-part",
        ),
        pytest.param({"all": {}}, None, {"all": {}}, id="alone"),
        pytest.param({"r1": {"rack": "r1"}, "r2": {"rack": "r2"}}, None, {"r1": {}, "r2": {}}, id="apart"),
        pytest.param(
            {"all": {}, "b0": {"block": "b0"}, "r0": {"rack": "r0"}},
            "b0",
            {"all": {"r0": 4}, "b0": {"r0": 4}, "r0": {"all": 4, "b0": 4}},
            id="of-a-segment",
        ),
    ],
)
def test_each_topology_counts_the_nodes_it_shares_with_each_other(
    topologies: dict[str, dict[str, str]], owner: str | None, shared: dict[str, dict[str, int]]
) -> None:
    """`owner`: the topology that belongs to `all`."""
    selecting = []
    for name, labels in topologies.items():
        owned_by = "all" if name == owner else ""
        selecting.append(replace(named(name, labels), owner=owned_by))
    assert overlaps(selecting, SIXTEEN) == shared
    nothing_shared: dict[str, dict[str, int]] = {name: {} for name in topologies}
    assert overlaps(selecting, Table(())) == nothing_shared


def test_every_label_of_a_selector_counts() -> None:
    both = named("both", {"block": "b0", "rack": "r0"})
    assert len(selected(both, SIXTEEN)) == 4


def test_selectors_that_look_at_labels_only_share_too() -> None:
    with_block = {"key": BLOCK, "operator": "Exists"}
    of_some = topology(nodeSelector={"matchExpressions": [with_block]})
    one = replace(of_some, name="one")
    without_block = gpu_node("bare", {"block": None})
    bare = Table([*SIXTEEN, without_block])
    assert overlaps([one, named("all", {})], bare) == {
        "one": {"all": 16},
        "all": {"one": 16},
    }


def test_the_condition_names_the_largest_shares_first_and_not_all_of_them() -> None:
    largest = {"b": 2, "a": 2, "c": 9}
    smallest = {"x0": 1, "x1": 1, "x2": 1, "x3": 1}
    shared = disjoint_condition({**largest, **smallest}, nodes=12)
    assert shared.status == "False"
    assert shared.reason == "NodesShared"
    assert shared.message.startswith(
        "Other ClusterTopologies select these nodes too: "
        "'c' 9 of 12, 'a' 2 of 12, 'b' 2 of 12, 'x0' 1 of 12, 'x1' 1 of 12 and 2 more; each is published"
    )
    five = disjoint_condition({**smallest, "x4": 1}, nodes=12)
    assert "'x3' 1 of 12, 'x4' 1 of 12; each is published" in five.message
    none = disjoint_condition({}, nodes=12)
    assert none == Condition(
        "SelectorsDisjoint", "True", "NoSharedNodes", "No other ClusterTopology selects these nodes"
    )
    one = disjoint_condition({"b": 1}, nodes=1)
    assert one.message.startswith("Other ClusterTopologies select these nodes too: 'b' 1 of 1; each is published")
    assert one.type == "SelectorsDisjoint"


def test_there_are_never_more_than_a_handful() -> None:
    many: dict[str, str | None] = dict.fromkeys(sorted(BUILT_IN.suspects), "x")
    history = History()
    history.look([gpu_node("n1", many)])
    shown = history.status["hints"]
    assert len(shown) == MOST_DIAGNOSTICS
    for hint in shown:
        assert hint["reason"] == "NearMiss"  # the most urgent


def test_labels_of_the_gpu_operator_are_no_near_misses() -> None:
    labels = {}
    for key in load((FIXTURES / "gpu_operator_labels.yaml").read_bytes()):
        labels[f"nvidia.com/{key}"] = "1"
    for capture in (SHARED / "captures" / "labels").glob("*.txt"):
        for line in capture.read_text().splitlines():
            key, _, value = line.partition("=")
            if key and not line.startswith("#"):
                labels[key] = value
    tracked = {}
    for key, value in labels.items():
        if key in BUILT_IN.tracked:
            tracked[key] = value
    history = History()
    assert history.look([gpu_node("n1", tracked)]).effective.path == FULL
    assert history.status.get("hints") is None


def requiring_racks() -> History:
    """Racks are listed and required, and may be missing for a minute."""
    return History(
        required=["rack"],
        levels=[{"domain": "rack", "key": RACK}],
        gracePeriod="1m",
    )


def test_unavailable_levels_are_remembered_without_their_messages() -> None:
    """A restarted controller keeps its verdict, whatever words the last one had for it."""
    history = requiring_racks()
    without = []
    for number in range(3):
        without.append(gpu_node(f"n{number}", {"rack": None}))
    history.look(without)
    history.look(without, after=61.0)
    assert history.status["unavailableLevels"] == [{"domain": "rack"}]
    for condition in history.status["conditions"]:
        condition["message"] = f"sentence about {condition['type']}"
    history.restart()
    found = history.look(without)
    assert found.unavailable == ("rack",)
    assert available(history)["status"] == "False"
    history.look(nodes())
    assert "unavailableLevels" not in history.status


def test_a_verdict_of_an_older_version_is_read_from_its_message() -> None:
    history = requiring_racks()
    without = [gpu_node("n0", {"rack": None})]
    history.look(without)
    history.look(without, after=61.0)
    del history.status["unavailableLevels"]
    history.restart()
    assert history.look(without).unavailable == ("rack",)
