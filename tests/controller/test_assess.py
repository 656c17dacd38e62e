"""What the controller concludes from nodes, over time and on thin evidence."""

from typing import Any

import msgspec
import pytest

from tests.support.cluster import BLOCK, RACK, ZONE, History, gpu_node, topology
from tests.support.tables import each_case, each_row, says
from toposcope.api.conditions import Condition
from toposcope.api.controller_config import read_config
from toposcope.api.effective_levels import Absences
from toposcope.api.label_keys import GPU_PRESENT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.assess.availability import judge, unsynced
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.node import NodeFacts, node_facts

FULL = "zone > block > rack > nvlink-domain > host"
NO_RACK = "zone > block > nvlink-domain > host"


def available(history: History) -> dict[str, Any]:
    return history.condition("TopologyLevelsAvailable")


def condition(found: Assessment, kind: str) -> Condition:
    return next(c for c in found.conditions if c.type == kind)


def nodes(count: int = 4, **labels: str | None) -> list[NodeFacts]:
    return [gpu_node(f"n{i}", labels) for i in range(count)]


class Group(msgspec.Struct, forbid_unknown_fields=True):
    """One node, or `count` of them with a number behind the name, each `count`ed from 0."""

    name: str
    count: int | None = None
    labels: dict[str, str | None] = {}

    @property
    def names(self) -> list[str]:
        return [self.name] if self.count is None else [f"{self.name}{i}" for i in range(self.count)]


class Assessed(msgspec.Struct, forbid_unknown_fields=True):
    """Nodes, and what is said of them at first sight."""

    case: str
    nodes: list[Group]
    spec: dict[str, Any] = {}
    catalogue: str = ""
    """As in a configuration file."""
    by_value: dict[str, str] = {}
    path: str = ""
    domains: list[int] = []
    """Of each level, counted by their path from the top."""
    status: dict[str, Any] = {}
    """Whole fields of the status; None for one that it must not have."""
    conditions: dict[str, list[str]] = {}
    """Status, reason, and what the message says."""
    hints: dict[str, dict[str, Any] | None] = {}
    """Fields by reason and key; None for a hint that there must not be."""


@each_row("assessed.yaml", Assessed, ids=lambda row: row.case)
def test_what_is_said_at_first_sight(row: Assessed) -> None:
    history = History(**row.spec)
    if row.catalogue:
        config = f"apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue: {row.catalogue}"
        history.catalogue = read_config(config.encode(), "c").catalogue
    history.by_value = row.by_value
    found = history.look([gpu_node(name, group.labels) for group in row.nodes for name in group.names])
    assert not row.path or found.effective.path == row.path
    assert not row.domains or [cover.domains for cover in found.coverage] == row.domains
    assert {field: history.status.get(field) for field in row.status} == row.status
    for kind, expected in row.conditions.items():
        seen = history.condition(kind)
        said = [seen["status"], seen["reason"], *[seen["message"]] * len(expected)]
        for words, text in zip(expected, said, strict=False):
            assert says(text, words), text
    hints = {f"{hint['reason']} {hint['key']}": hint for hint in history.status.get("hints", ())}
    for name, fields in row.hints.items():
        assert (name in hints) == (fields is not None)
        for field, value in (fields or {}).items():
            hint = hints[name].get(field)
            assert says(hint, value) if field == "message" else hint == value, hint


def test_levels_that_are_no_longer_required_are_forgotten() -> None:
    """Workloads come and go, and each may require a level that no node has; so may each edit of a spec name one."""
    history = History(required=["rack"])
    history.look(nodes())
    for number in range(5):
        history.spec = {"required": [f"level-{number}"], "levels": [{"domain": "x", "key": f"example.com/{number}"}]}
        history.look(nodes(), after=1.0)
        assert len(history.absences._since) == 2
    history.spec = {}
    for _ in range(2):
        history.look(nodes(), after=100000.0)
    assert not history.absences._since


@each_case("tables/controller.yaml")
def test_a_level_is_what_nearly_all_nodes_carry_and_the_others_are_named(
    without: int, total: int, percent: int | None, level: bool
) -> None:
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
    assert (f"({RACK}) is on {total - without} of {total} nodes and no level" in covered.message) != level


def test_the_message_stays_short_however_long_the_names_and_many_the_labels() -> None:
    keys = [keys[0] for domain, keys in BUILT_IN.keys.items() if domain not in ("host", "nvlink-domain")]
    bare = [gpu_node(f"bare-{i}" + "x" * 240, {"zone": None, "block": None, "rack": None}) for i in range(10)]
    labelled = [gpu_node(f"n{i}", dict.fromkeys(keys, "v")) for i in range(12)]
    message = condition(History().look([*labelled, *bare]), "LevelsCovered").message
    assert message.endswith("more such labels: toposcope levels")
    assert len(message) < 3000
    assert "bare-0" in message


def test_a_level_that_nearly_all_carry_stays_however_few_are_left() -> None:
    history = History()
    for labelled, path in ((94, NO_RACK), (95, FULL), (94, FULL), (1, FULL), (95, FULL), (0, FULL)):
        bare = [gpu_node(f"bare-{i}", {"rack": None}) for i in range(100 - labelled)]
        assert history.look([*nodes(labelled), *bare], after=1).effective.path == path
    assert history.look(bare, after=601).effective.path == NO_RACK


def test_a_level_stays_while_any_node_carries_it_and_the_others_are_named() -> None:
    history = History(required=["rack"])
    history.look(nodes(3))
    found = history.look([*nodes(3), gpu_node("n9", {"rack": None})], after=100000)
    assert found.effective.path == FULL
    assert available(history)["status"] == "True"
    covered = condition(found, "LevelsCovered")
    assert (covered.status, covered.reason) == ("False", "NodesMissingLevels")
    assert f"1 of 4 nodes lacks level 'rack' ({RACK}): n9" in covered.message


def test_a_level_that_is_gone_counts_as_unavailable_after_the_grace_period_and_not_before() -> None:
    history = History(required=["rack"], gracePeriod="10m")
    history.look(nodes())
    for _ in range(6):
        assert history.look(nodes(rack=None), after=100).effective.path == FULL
        assert available(history)["status"] == "True"
    # Seen gone at 100 s: 600 s later is not yet longer than the grace period, 601 s is.
    assert history.look(nodes(rack=None), after=100).publishable is not None
    assert available(history)["status"] == "True"
    found = history.look(nodes(rack=None), after=1)
    assert available(history) == {
        "type": "TopologyLevelsAvailable",
        "status": "False",
        "reason": "TopologyLevelsUnavailable",
        "message": "Topology level 'rack' is no longer available in the cluster topology",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    assert found.effective.path == NO_RACK
    assert [level.domain for level in found.publishable or ()] == NO_RACK.split(" > ")


def test_a_grace_period_of_zero_means_at_once() -> None:
    history = History(required=["rack"], gracePeriod="0s")
    history.look(nodes())
    assert history.look(nodes(rack=None), after=1).effective.path == NO_RACK
    assert available(history)["status"] == "False"


@pytest.mark.parametrize("seen", [True, False])
def test_one_look_says_what_is_gone_and_takes_nothing_from_what_is_published(*, seen: bool) -> None:
    """Of `controller --once`: nobody looks again when the grace period is over."""
    history = History(required=["rack"])
    if seen:
        history.look(nodes())
    history.absences = Absences(single_look=True)
    found = history.look(nodes(rack=None))
    assert available(history)["status"] == "False"
    assert found.effective.path == (FULL if seen else NO_RACK)


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
                levels = history.look(NODES[name], after=float(seconds)).publishable
                path = levels and " > ".join(level.domain for level in levels)
                assert path == {"rack": FULL, "-": NO_RACK, "nothing": None}[published], step
                seen = available(history)
                assert seen["status"] == status, step
                assert status != "Unknown" or (seen["reason"], seen["message"]) == UNKNOWN[name], step


def test_preferred_levels_are_missed_after_the_grace_period_whatever_is_required() -> None:
    absences, racks = Absences(), ("rack",)

    def missed(now: float, *required: str, status: dict[str, Any] | None = None) -> tuple[str, ...]:
        return judge(topology(status, gracePeriod="1m"), required, (), absences, now, racks).missed

    assert [missed(0), missed(61), missed(61, "zone"), missed(122, "zone")] == [(), racks, racks, racks]
    absences = Absences()
    assert missed(200, status={"preferredBy": [{"domain": "rack", "workloads": 1, "available": False}]}) == racks


def test_before_the_nodes_are_listed_nothing_is_known() -> None:
    text = "The nodes of the cluster have not been listed yet: why"
    assert unsynced("why") == Condition("TopologyLevelsAvailable", "Unknown", "NodesNotSynced", text)


INFERRED: dict[str, Any] = {}
LISTED = {"levels": [{"domain": domain, "key": key} for domain, key in (("zone", ZONE), ("rack", RACK))]}


@pytest.mark.parametrize("levels", [INFERRED, LISTED], ids=["inferred", "listed"])
@each_row("kept_levels.yaml", Course, ids=lambda row: row.case)
def test_grove_s_binding_keeps_a_level_that_workloads_require(levels: dict[str, Any], row: Course) -> None:
    """`=`: rack is published everywhere; `+`: only for Grove; `-`: nowhere. Before the nodes: what Grove's require."""
    history = History(gracePeriod="1m", **levels)
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
            case [*bound, name, seconds, outcome]:
                if bound:
                    history.bound = {"-": (), "?": None}.get(bound[0].strip(":"), bound[0].strip(":"))
                found = history.look(NODES[name], after=float(seconds))
                racks = [any(x.key == RACK for x in of or ()) for of in (found.publishable, found.bindable)]
                assert racks == {"=": [True] * 2, "+": [False, True], "-": [False] * 2, "nothing": [False] * 2}[outcome]
                entry: dict[str, Any] = next(
                    (level for level in history.status["levels"] if level["domain"] == "rack"), {}
                )
                assert name == "none" or entry.get("retained", False) == (outcome == "+"), step


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


def test_several_levels_are_sorted_and_joined() -> None:
    history = History(required=["zone", "rack", "block"], gracePeriod="1m")
    history.look(nodes())
    history.look(nodes(rack=None, block=None))
    history.look(nodes(rack=None, block=None), after=61)
    assert available(history)["message"] == (
        "Topology level 'block' is no longer available in the cluster topology; "
        "Topology level 'rack' is no longer available in the cluster topology"
    )


def test_a_bad_spec_publishes_nothing_and_still_reports() -> None:
    found = History(levels=[{"domain": "Rack", "key": RACK}]).look(nodes())
    assert found.publishable is None
    assert found.nodes == 4


def test_nodes_that_lack_a_level_count_and_are_counted_apart() -> None:
    history = History(levels=[{"domain": "block", "key": BLOCK}, {"domain": "rack", "key": RACK}])
    bare = [gpu_node(f"bare-{i}", {GPUS: "4"} | {("rack", "block")[i % 2]: None}) for i in range(3)]
    found = history.look([*nodes(2), *bare, gpu_node("both", {"rack": None, "block": "no-topology"})])
    assert (found.nodes, found.gpus, found.left_out) == (6, 36, (4, 20))
    assert (history.status["leftOutNodes"], history.status["leftOutGpus"]) == (4, 20)
    assert history.look(nodes()).left_out == (0, 0)


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
