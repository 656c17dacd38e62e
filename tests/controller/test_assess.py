"""What the controller concludes from nodes, over time and on thin evidence; topologies that select the same ones."""

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.support.cluster import BLOCK, RACK, ZONE, History, fabric, gpu_node, topology
from tests.support.paths import FIXTURES, SHARED
from tests.support.tables import at, each_case, each_row, says
from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import Condition
from toposcope.api.label_keys import GPU_PRESENT, HOSTNAME, NVLINK_DOMAIN
from toposcope.api.yaml_text import load
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.assess.availability import judge, unsynced
from toposcope.controller.assess.diagnostics import MOST
from toposcope.controller.assess.selection import disjoint_condition, overlaps, selected
from toposcope.controller.memory import Memory
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.controller_config import read_config
from toposcope.hierarchy.node import NodeFacts, node_facts
from toposcope.hierarchy.table import Table

FULL = "zone > block > rack > nvlink-domain > host"
NO_RACK = "zone > block > nvlink-domain > host"


def available(history: History) -> dict[str, Any]:
    return history.condition("TopologyLevelsAvailable")


def condition(found: Assessment, kind: str) -> Condition:
    return next(c for c in found.conditions if c.type == kind)


def nodes(count: int = 4, **labels: str | None) -> list[NodeFacts]:
    return [gpu_node(f"n{i}", labels) for i in range(count)]


class Group(msgspec.Struct, forbid_unknown_fields=True):
    """One node, or `count` of them with a number behind the name, each `count`ed from `first`."""

    name: str
    count: int | None = None
    first: int = 0
    labels: dict[str, str | None] = {}
    """`fabric 3.1` is the NVLink domain of that fabric and clique."""
    chassis: str = ""
    state: str = "ok"

    def nodes(self) -> list[NodeFacts]:
        numbers = [""] if self.count is None else range(self.first, self.first + self.count)
        labels = {key: resolved(value) for key, value in self.labels.items()}
        return [gpu_node(f"{self.name}{i}", labels, chassis=self.chassis, state=self.state) for i in numbers]


def resolved(value: Any) -> Any:
    """A value of a table with fabrics by their numbers."""
    if isinstance(value, dict):
        return {key: resolved(part) for key, part in value.items()}
    if isinstance(value, list):
        return [resolved(part) for part in value]
    words = re.fullmatch(r"fabric (\d+)(?:\.(\d+))?", str(value))
    if not words:
        return value
    return fabric(int(words[1]), int(words[2])) if words[2] else fabric(int(words[1])).partition(".")[0]


class Look(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What happens, in this order, and what is said of the nodes then."""

    restart: bool = False
    once: bool = False
    """Whether nobody looks again."""
    generation: int | None = None
    """The one that the status is about, where the spec has another."""
    spec: dict[str, Any] | None = None
    catalogue: str | None = None
    """As in a configuration file."""
    by_value: dict[str, str] = {}
    nodes: list[Group] | None = None
    """As before where nothing is said."""
    after: float = 0
    same: bool = False
    """Whether the status is the last one."""
    path: str = ""
    published: bool | None = None
    """Whether schedulers would be told of any levels."""
    segments: dict[str, int] | None = None
    domains: list[int] = []
    """Of each level, counted by their path from the top."""
    status: dict[str, Any] = {}
    """Values of the status by their place; None for one that it must not have."""
    conditions: dict[str, list[str] | None] = {}
    """Status, reason, and what the message says; None for one that there must not be."""
    hints: dict[str, dict[str, Any] | None] = {}
    """Fields by reason and key; None for a hint that there must not be."""


class Assessed(Look, kw_only=True):
    case: str
    then: list[Look] = []


def change(history: History, look: Look) -> None:
    if look.restart or look.once:
        history.memory = Memory(single_look=look.once)
    if look.generation is not None:
        history.status["observedGeneration"] = look.generation
    if look.spec is not None:
        history.spec = look.spec
    if look.catalogue is not None:
        config = f"apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue: {look.catalogue}"
        history.catalogue = read_config(config.encode(), "c").catalogue
    history.by_value = look.by_value


@pytest.mark.regression
@each_row("assessed.yaml", Assessed, ids=lambda row: row.case)
def test_what_is_said_at_each_look(row: Assessed) -> None:
    history = History()
    nodes: list[NodeFacts] = []
    for look in (row, *row.then):
        change(history, look)
        nodes = nodes if look.nodes is None else [node for group in look.nodes for node in group.nodes()]
        before = history.status
        found = history.look(nodes, look.after)
        assert not look.same or history.status == before
        assert len(found.selected) == history.status.get("nodes", 0)
        assert not look.path or found.effective.path == look.path
        told = {found.publishable is not None, found.bindable is not None}
        assert look.published is None or told == {look.published}
        assert look.segments is None or history.segments == look.segments
        assert not look.domains or [cover.domains for cover in found.coverage] == look.domains
        assert {place: at(history.status, place) for place in look.status} == resolved(look.status)
        for kind, expected in look.conditions.items():
            seen = history.condition(kind)
            assert bool(seen) == (expected is not None), kind
            said = [seen["status"], seen["reason"], *[seen["message"]] * len(expected)] if expected else []
            for words, text in zip(expected or (), said, strict=False):
                assert says(text, words), text
        hints = {f"{hint['reason']} {hint['key']}": hint for hint in history.status.get("hints", ())}
        for name, fields in look.hints.items():
            assert (name in hints) == (fields is not None)
            for field, value in (fields or {}).items():
                hint = hints[name].get(field)
                assert says(hint, value) if field == "message" else hint == value, hint


@pytest.mark.regression
def test_levels_that_are_no_longer_required_are_forgotten() -> None:
    """Workloads come and go, and each may require a level that no node has; so may each edit of a spec name one."""
    history = History(required=["rack"])
    history.look(nodes())
    for number in range(5):
        history.spec = {"required": [f"level-{number}"], "levels": [{"domain": "x", "key": f"example.com/{number}"}]}
        history.look(nodes(), after=1.0)
        assert [len(timers._since) for timers in (history.memory.levels.gone, history.memory.unavailable)] == [1, 1]
    history.spec = {}
    for _ in range(2):
        history.look(nodes(), after=100000.0)
    assert history.memory.next_deadline(600.0, history.now) is None


@pytest.mark.regression
@each_case("tables/controller.yaml")
def test_a_level_is_what_nearly_all_nodes_carry(without: int, total: int, percent: int | None, level: bool) -> None:
    spec = {} if percent is None else {"minCoveragePercent": percent}
    bare = [gpu_node(f"bare-{i}", {"rack": "no-topology" if i % 2 else None}) for i in range(without)]
    found = History(**spec).look([*nodes(total - without), *bare])
    assert found.effective.path == (FULL if level else NO_RACK)
    covered = condition(found, "LevelsCovered")
    assert (covered.status, covered.reason) == ("False", "NodesMissingLevels")
    assert "bare-0" in covered.message
    assert (
        "Kueue and KAI leave a node without one of the levels out of the whole topology" in covered.message
    ) == level
    assert (f"({RACK}) is on {total - without} of {total} nodes and not a level" in covered.message) != level


@pytest.mark.regression
def test_the_message_stays_short_however_long_the_names_and_many_the_labels() -> None:
    keys = [keys[0] for domain, keys in BUILT_IN.keys.items() if domain not in ("host", "nvlink-domain")]
    bare = [gpu_node(f"bare-{i}" + "x" * 240, {"zone": None, "block": None, "rack": None}) for i in range(10)]
    labelled = [gpu_node(f"n{i}", dict.fromkeys(keys, "v")) for i in range(12)]
    message = condition(History().look([*labelled, *bare]), "LevelsCovered").message
    assert message.endswith("more such labels: toposcope levels")
    assert len(message) < 3000
    assert "bare-0" in message


NODES = {
    "labelled": nodes(),
    "unlabelled": nodes(rack=None),
    "unusable": [gpu_node(f"n{i}", ready=bool(i % 2), schedulable=not i % 2) for i in range(4)],
    "none": [],
}
UNSEEN = (
    "No selected node has carried level 'rack' yet; a level that none carries within gracePeriod (1m) counts as "
    "unavailable"
)
UNKNOWN = {
    "none": ("NoNodes", "No node is selected; an empty cluster says nothing about its levels"),
    "unlabelled": ("LevelsNotSeen", UNSEEN),
    "unusable": ("NoUsableNodes", "Waiting for a Ready, schedulable node with level 'rack'"),
}


class Course(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    steps: str


@pytest.mark.regression
@each_row("availability.yaml", Course, ids=lambda row: row.case)
def test_availability_of_a_required_level_over_time(row: Course) -> None:
    """Nodes, seconds later, status of the condition, and whether rack is published: `nothing` leaves all as it is."""
    history = History(required=["rack"], gracePeriod="1m")
    for step in row.steps.split(", "):
        match step.split():
            case ["restart"]:
                history.restart()
            case ["retain"]:
                history.spec["removalPolicy"] = "Retain"
            case [name, seconds, status, published]:
                found = history.look(NODES[name], after=float(seconds))
                path = found.publishable and " > ".join(level.domain for level in found.publishable)
                assert path == {"rack": FULL, "-": NO_RACK, "nothing": None}[published], step
                seen = available(history)
                assert (seen["status"], found.unavailable) == (status, ("rack",) * (status == "False")), step
                assert status != "Unknown" or (seen["reason"], seen["message"]) == UNKNOWN[name], step


def test_preferred_levels_are_missed_after_the_grace_period_whatever_is_required() -> None:
    memory, racks = Memory(), ("rack",)

    def missed(now: float, *required: str, status: dict[str, Any] | None = None) -> tuple[str, ...]:
        return judge(topology(status, gracePeriod="1m"), (), memory, now, required=required, preferred=racks).missed

    assert [missed(0), missed(61), missed(61, "zone"), missed(122, "zone")] == [(), racks, racks, racks]
    memory = Memory()
    status = {"preferredBy": [{"domain": "rack", "workloads": 1, "available": False}]}
    assert missed(200, status=status) == racks
    history = History()
    history.status = status
    assert history.look([]).missed == racks
    history.preferred = ("host",)
    assert history.look(nodes()).missed == ()


def test_before_the_nodes_are_listed_nothing_is_known() -> None:
    text = "The nodes of the cluster have not been listed yet: why"
    assert unsynced("why") == Condition("TopologyLevelsAvailable", "Unknown", "NodesNotSynced", text)


INFERRED: dict[str, Any] = {}
LISTED = {"levels": [{"domain": domain, "key": key} for domain, key in (("zone", ZONE), ("rack", RACK))]}


@pytest.mark.regression
@pytest.mark.parametrize("levels", [INFERRED, LISTED], ids=["inferred", "listed"])
@each_row("kept_levels.yaml", Course, ids=lambda row: row.case)
def test_grove_s_binding_keeps_a_level_that_workloads_require(levels: dict[str, Any], row: Course) -> None:
    """`=`: rack is published everywhere; `+`: only for Grove; `-`: nowhere. Before the nodes: what Grove's require."""
    history = History(gracePeriod="1m", required=["rack"], **levels)
    history.look(NODES["labelled"])
    for step in row.steps.split(", "):
        words = step.split()
        match words:
            case ["restart"]:
                history.restart()
            case ["never"]:
                history.spec["publish"] = {"grove": "Never"}
            case ["retain"]:
                history.spec["removalPolicy"] = "Retain"
            case ["remove"]:
                history.spec["removalPolicy"], history.status["observedGeneration"] = "Remove", 2
            case [*bound, name, seconds, outcome]:
                if bound:
                    history.bound = {"-": (), "?": None}.get(bound[0].strip(":"), bound[0].strip(":"))
                found = history.look(NODES[name], after=float(seconds))
                racks = [any(x.key == RACK for x in of or ()) for of in (found.publishable, found.bindable)]
                assert racks == {"=": [True] * 2, "+": [False, True], "-": [False] * 2, "nothing": [False] * 2}[outcome]
                retained = at(history.status, "levels[rack].retained")
                assert name == "none" or bool(retained) == (outcome == "+"), step
                said = available(history)
                assert said["status"] != "False" or ("(kept in Grove's" in said["message"]) == bool(retained), step


def test_a_level_that_nodes_carry_by_another_key_needs_no_retention() -> None:
    other = "cloud.provider.com/topology-rack"
    history = History(gracePeriod="1m")
    history.bound = ("rack",)
    history.look(nodes())
    moved = [gpu_node(f"n{i}", {"rack": None, other: "r"}) for i in range(4)]
    history.look(moved)
    found = history.look(moved, after=61)
    keys = [level.key for level in found.bindable or () if level.domain == "rack"]
    assert (keys, found.bindable) == ([other], found.publishable)


@pytest.mark.parametrize(("key", "reporting"), [(HOSTNAME, "True"), (GPU_PRESENT, "False"), (NVLINK_DOMAIN, "False")])
def test_a_node_without_gpus_is_ignored_unless_a_label_says_that_it_has_some(key: str, reporting: str) -> None:
    plain = node_facts("web", "u", (key,), ("true",), ready=True, schedulable=True, gpus=0)
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
    times = {c["type"]: c["lastTransitionTime"] for c in history.status["conditions"]}
    assert times["TopologyLevelsAvailable"] == "2020-01-01T00:00:00Z"
    assert times["LevelsCovered"] == "2026-01-02T03:04:05Z"


def test_the_status_of_a_huge_cluster_is_small() -> None:
    many = [gpu_node(f"node-{i}", {"rack": None if i % 2 else f"r{i}", "block": f"b{i // 100}"}) for i in range(3000)]
    history = History(levels=[{"domain": d, "key": k} for d, k in (("zone", ZONE), ("block", BLOCK), ("rack", RACK))])
    history.look(many)
    assert len(str(history.status)) < 8192
    assert max(len(level.get("missingNodes", ())) for level in history.status["levels"]) == 10


SIXTEEN = Table(gpu_node(f"n{i}", {"rack": f"r{i // 4}", "block": f"b{i // 8}"}) for i in range(16))


def named(name: str, labels: dict[str, str]) -> Topology:
    keys = {"block": BLOCK, "rack": RACK}
    spec = {"nodeSelector": {"matchLabels": {keys[key]: value for key, value in labels.items()}}} if labels else {}
    return replace(topology(**spec), name=name, uid=name)


@each_case("tables/controller.yaml")
def test_each_topology_counts_the_nodes_it_shares_with_each_other(
    topologies: dict[str, dict[str, str]], owner: str | None, shared: dict[str, dict[str, int]]
) -> None:
    """`owner`: the topology that belongs to `all`."""
    found = [replace(named(*topology), owner="all" if topology[0] == owner else "") for topology in topologies.items()]
    assert overlaps(found, SIXTEEN) == shared
    assert overlaps(found, Table(())) == {name: {} for name in topologies}


def test_every_label_of_a_selector_counts() -> None:
    assert len(selected(named("both", {"block": "b0", "rack": "r0"}), SIXTEEN)) == 4


def test_selectors_that_look_at_labels_only_share_too() -> None:
    some = {"nodeSelector": {"matchExpressions": [{"key": BLOCK, "operator": "Exists"}]}}
    one = replace(topology(**some), name="one")
    bare = Table([*SIXTEEN, gpu_node("bare", {"block": None})])
    assert overlaps([one, named("all", {})], bare) == {"one": {"all": 16}, "all": {"one": 16}}


def test_the_condition_names_the_largest_shares_first_and_not_all_of_them() -> None:
    shared = disjoint_condition({"b": 2, "a": 2, "c": 9, **{f"x{i}": 1 for i in range(4)}}, nodes=12)
    assert (shared.status, shared.reason) == ("False", "NodesShared")
    assert shared.message.startswith(
        "Of 12 nodes, 9 with 'c', 2 with 'a', 2 with 'b', 1 with 'x0', 1 with 'x1' and some with 2 more are shared"
    )
    five = disjoint_condition({f"x{i}": 1 for i in range(5)}, nodes=12)
    assert "1 with 'x3', 1 with 'x4' are shared" in five.message
    none = disjoint_condition({}, nodes=12)
    assert none == Condition(
        "SelectorsDisjoint", "True", "NoSharedNodes", "No other ClusterTopology selects these nodes"
    )
    one = disjoint_condition({"b": 1}, nodes=1)
    assert one.message.startswith("Of 1 node, 1 with 'b' are shared with another ClusterTopology; each is published")
    assert one.type == "SelectorsDisjoint"


def test_there_are_never_more_than_a_handful() -> None:
    many: dict[str, str | None] = dict.fromkeys(sorted(BUILT_IN.suspects), "x")
    history = History()
    history.look([gpu_node("n1", many)])
    shown = history.status["hints"]
    assert len(shown) == MOST
    assert {hint["reason"] for hint in shown} == {"NearMiss"}  # the most urgent


def test_labels_of_the_gpu_operator_are_no_near_misses() -> None:
    labels = {f"nvidia.com/{key}": "1" for key in load((FIXTURES / "gpu_operator_labels.yaml").read_bytes())}
    for capture in (SHARED / "captures" / "labels").glob("*.txt"):
        lines = (line.partition("=") for line in capture.read_text().splitlines() if not line.startswith("#"))
        labels |= {key: value for key, _, value in lines if key}
    tracked = {key: value for key, value in labels.items() if key in BUILT_IN.tracked}
    history = History()
    assert history.look([gpu_node("n1", tracked)]).effective.path == FULL
    assert history.status.get("hints") is None


def test_unavailable_levels_are_remembered_without_the_sentences_about_them() -> None:
    """A restarted controller keeps its verdict, whatever words the last one had for it."""
    history = History(required=["rack"], levels=[{"domain": "rack", "key": RACK}], gracePeriod="1m")
    without = [gpu_node(f"n{number}", {"rack": None}) for number in range(3)]
    history.look(without)
    history.look(without, after=61.0)
    assert history.status["unavailableLevels"] == [{"domain": "rack"}]
    for condition in history.status["conditions"]:
        condition["message"] = f"sentence about {condition['type']}"
    history.restart()
    found = history.look(without)
    assert (found.unavailable, available(history)["status"]) == (("rack",), "False")
    history.look(nodes())
    assert "unavailableLevels" not in history.status


def test_a_verdict_of_an_older_version_is_read_from_its_message() -> None:
    history = History(required=["rack"], levels=[{"domain": "rack", "key": RACK}], gracePeriod="1m")
    without = [gpu_node("n0", {"rack": None})]
    history.look(without)
    history.look(without, after=61.0)
    del history.status["unavailableLevels"]
    history.restart()
    assert history.look(without).unavailable == ("rack",)
