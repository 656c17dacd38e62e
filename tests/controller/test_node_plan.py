"""The agents' plan: one ConfigMap that changes only when the levels do, and what the status says of their work."""

import json
import logging
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, create_namespace
from tests.support.cluster import BLOCK, RACK, START, ZONE, gpu_node, topology
from tests.support.controller import (
    condition,
    controller_of,
    edit_topology,
    make_node,
    make_topology,
    relabel,
    share_crd,
    status_of,
)
from tests.support.publishing import Time, WatchedClient, levels
from toposcope.api.cluster_topology import PATH, read
from toposcope.api.label_keys import SLINKY, SLINKY_KEPT
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.loop import Controller
from toposcope.controller.memory import Memory
from toposcope.controller.node_plan import plan_of, planned, unwritten_annotations, unwritten_values
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.node_plan import NodePlanWriter
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.integrations.node_plan import CONFIG_MAP, NodePlan, PlannedTopology, decode, encode
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, UnreachableError

HOME = "/api/v1/namespaces/toposcope-system/configmaps"
PLAN = f"{HOME}/{CONFIG_MAP}"
RACKS = "gpu.topology/unique-rack"


@dataclass
class Site:
    """A controller that makes passes, and the paths of what it writes."""

    api: ApiUnderTest
    client: ApiClient
    time: Time = field(default_factory=Time)
    writes: list[str] = field(default_factory=list)
    refuses: ApiError | None = None

    def __post_init__(self) -> None:
        self.controller = self.new_term()

    def new_term(self) -> Controller:
        watched: Any = WatchedClient(self.client, self._note)
        plan = NodePlanWriter(watched, watched, "toposcope-system", self.time)
        self.controller = controller_of(self.client, Reconciler(Wiring(watched, runtime=self.time, node_plan=plan)))
        return self.controller

    def _note(self, request: Request) -> None:
        if request.method == "GET":
            return
        self.writes.append(request.path)
        if self.refuses and request.path == PLAN:
            raise self.refuses

    def turn(self, seconds: float = 0.0) -> list[str]:
        """Make a pass after some seconds; what it wrote."""
        self.time.seconds += seconds
        self.writes.clear()
        self.controller.once()
        return self.writes

    def plan(self) -> NodePlan:
        return decode(self.api.get(PLAN)["data"]["plan.json"])


@pytest.fixture
def site(api: ApiUnderTest, clients: Clients) -> Site:
    share_crd(api)
    create_namespace(api, "toposcope-system")
    for name, block in {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2"}.items():
        make_node(api, name, {ZONE: "z", BLOCK: block, RACK: "r1"})
    return Site(api, clients())


def test_the_plan_says_what_is_asked_for_and_the_controller_writes_no_node(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"], publish={"slinky": "Auto"}, gracePeriod="0s")
    writes = site.turn()
    (entry,) = site.plan().topologies
    assert [level.domain for level in entry.levels] == ["zone", "block", "rack", "nvlink-domain", "host"]
    assert (entry.unique, entry.annotates) == (("rack",), True)
    assert entry.slurm is not None
    assert [level.style.value for level in entry.slurm.tree] == ["value", "value", "path"]
    assert PLAN in writes
    assert [path for path in writes if path.startswith(NODES)] == []


def test_where_nothing_is_asked_for_there_is_no_plan(site: Site) -> None:
    make_topology(site.api)
    assert PLAN not in site.turn()
    assert site.api.request("GET", PLAN)[0] == 404


def test_the_plan_stays_as_it_is_while_nodes_come_and_go(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"], publish={"slinky": "Auto"}, gracePeriod="0s")
    site.turn()
    version = site.api.get(PLAN)["metadata"]["resourceVersion"]
    make_node(site.api, "n5", {ZONE: "z", BLOCK: "b3", RACK: "r9"})
    site.turn(61)
    assert site.api.request("DELETE", f"{NODES}/n1")[0] == 200
    relabel(site.api, "n2", {BLOCK: "b7"})
    site.turn(61)
    assert site.api.get(PLAN)["metadata"]["resourceVersion"] == version


def test_the_plan_changes_with_the_levels_and_with_the_spec(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"], gracePeriod="0s")
    site.turn()
    for name in ("n1", "n2", "n3", "n4"):
        relabel(site.api, name, {BLOCK: None})
    site.turn()
    site.turn(1)
    assert [level.domain for level in site.plan().topologies[0].levels] == ["zone", "rack", "nvlink-domain", "host"]
    edit_topology(site.api, uniqueValues=["zone", "rack"])
    site.turn()
    assert site.plan().topologies[0].unique == ("zone", "rack")
    edit_topology(site.api, uniqueValues=[])
    site.turn()
    assert site.plan().topologies == ()


def test_what_others_change_in_the_plan_is_repaired_within_a_minute(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"])
    site.turn()
    wanted = site.api.get(PLAN)["data"]
    site.api.patch(PLAN, {"data": {"plan.json": "{}"}})
    site.turn(61)
    assert site.api.get(PLAN)["data"] == wanted
    assert site.api.request("DELETE", PLAN)[0] == 200
    site.turn(61)
    assert site.api.get(PLAN)["data"] == wanted


def test_another_term_writes_nothing_that_is_there(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"])
    site.turn()
    site.new_term()
    assert PLAN not in site.turn()


@pytest.mark.regression
def test_deleted_topology_leaves_the_plan_a_minute_later(site: Site) -> None:
    asked: dict[str, Any] = {"uniqueValues": ["rack"], "publish": {"slinky": "Auto"}}
    make_topology(site.api, **asked)
    site.turn()
    before = site.plan()
    assert site.api.request("DELETE", f"{PATH}/cluster")[0] == 200
    for seconds in (0, 59):
        site.turn(seconds)
        assert site.plan() == before
    make_topology(site.api, **asked)
    site.turn(60)
    assert site.plan() == before
    assert site.api.request("DELETE", f"{PATH}/cluster")[0] == 200
    site.turn()
    site.turn(61)
    assert site.plan().topologies == ()


class Lagging:
    """Answers with a plan, and lists ClusterTopologies that the watch does not show."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan, self.listed, self.written = plan, [{"uid": "u", "generation": 1}], list[str]()
        self.error: Exception | None = None

    def call(self, request: Request) -> Any:
        if request.method != "GET":
            self.written.append(json.loads(request.body or b"")["data"]["plan.json"])
            return {}
        if request.path == PATH:
            if self.error:
                raise self.error
            return {"metadata": {}, "items": [{"metadata": metadata} for metadata in self.listed]}
        return {"metadata": {}, "data": {"plan.json": encode(self.plan)}}


@pytest.mark.regression
def test_topology_leaves_the_plan_only_where_a_list_shows_it_gone() -> None:
    gone = PlannedTopology("cluster", (), levels(ZONE), ("zone",))
    client, time = Lagging(NodePlan((gone,))), Time()
    writer = NodePlanWriter(client, client, "toposcope-system", time)  # type: ignore[arg-type]
    for seconds in (0, 59, 1, 1):
        time.seconds += seconds
        writer.keep(NodePlan(), ())
    assert client.written == []
    client.error = UnreachableError("away")
    with pytest.raises(UnreachableError):
        writer.keep(NodePlan(), ())
    client.error = client.listed = []  # type: ignore[assignment]
    writer.keep(NodePlan(), ())
    assert [decode(text) for text in client.written] == [NodePlan()]


def test_a_plan_that_cannot_be_read_is_written_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = Lagging(NodePlan())
    client.plan = replace(client.plan, placeholders=frozenset({"x"}))
    wanted = NodePlan((PlannedTopology("cluster", (), levels(ZONE), ("zone",)),))
    writer = NodePlanWriter(client, client, "toposcope-system", Time())  # type: ignore[arg-type]
    writer.keep(wanted, [topology(uniqueValues=["zone"])])
    assert [decode(text) for text in client.written] == [wanted]
    assert caplog.messages == ["the agents' plan is written: 1 ClusterTopology asks for keys on nodes"]


# What the status says.


def test_the_status_says_which_nodes_their_agents_have_not_written_yet(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"], gracePeriod="0s")
    site.turn()
    found = condition(site.api, "UniqueValuesWritten")
    assert (found["status"], found["reason"]) == ("Unknown", "Writing")
    assert found["message"].startswith(f"{RACKS} not up to date yet on 4 nodes, first n1; agents write it with")
    for name, value in {"n1": "z.b1.r1", "n2": "z.b1.r1", "n3": "z.b1.r1", "n4": "z.b2.r1"}.items():
        relabel(site.api, name, {RACKS: value})
    site.turn()
    assert "on 1 node, first n3, which carries 'z.b1.r1'; " in condition(site.api, "UniqueValuesWritten")["message"]
    relabel(site.api, "n3", {RACKS: "z.b2.r1"})
    site.turn()
    assert condition(site.api, "UniqueValuesWritten")["reason"] == "InSync"
    edit_topology(site.api, uniqueValues=[])
    site.turn()
    assert condition(site.api, "UniqueValuesWritten") == {}
    assert "uniqueValues" not in status_of(site.api)


def test_a_level_that_is_not_in_effect_is_named(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack", "tray"])
    site.turn()
    found = condition(site.api, "UniqueValuesWritten")
    assert (found["reason"], "no level tray is in effect" in found["message"]) == ("LevelMissing", True)


def test_a_dry_run_says_what_slinky_would_get_and_plans_nothing(site: Site) -> None:
    make_topology(site.api, publish={"slinky": "DryRun"}, gracePeriod="0s")
    assert PLAN not in site.turn()
    found = condition(site.api, "SlinkyAnnotated")
    assert found["reason"] == "DryRun"
    assert f"{SLINKY} of 4 nodes, first n1: cluster-tree:z.b1.r1,cluster-block:z.b1.r1" in found["message"]


def test_annotations_are_not_called_right_while_no_level_is_known(site: Site) -> None:
    make_topology(site.api, publish={"slinky": "Auto"}, nodeSelector={"matchLabels": {"example.com/none": "x"}})
    site.turn()
    found = condition(site.api, "SlinkyAnnotated")
    assert (found["status"], found["reason"]) == ("Unknown", "NoLevels")
    assert site.plan().topologies[0].slurm is None


def test_slinkys_annotation_of_another_owner_is_named_and_stays(site: Site) -> None:
    make_topology(site.api, publish={"slinky": "Auto"}, gracePeriod="0s")
    site.turn()
    unit = "cluster-tree:z.{0}.r1,cluster-block:z.{0}.r1"
    units = {"n1": unit.format("b1"), "n2": unit.format("b1"), "n3": unit.format("b2"), "n4": "mine"}
    for name, found in units.items():
        site.api.patch(f"{NODES}/{name}", {"metadata": {"annotations": {SLINKY: found}}})
    site.turn()
    message = condition(site.api, "SlinkyAnnotated")["message"]
    assert message.startswith(f"{SLINKY} not up to date yet on 1 node, first n4, which carries 'mine'; agents write it")
    site.api.patch(f"{NODES}/n4", {"metadata": {"annotations": {SLINKY: unit.format("b2")}}})
    site.turn()
    assert condition(site.api, "SlinkyAnnotated")["reason"] == "InSync"


def test_a_plan_that_may_not_be_written_is_said_in_the_status(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"], publish={"slinky": "Auto"})
    site.refuses = ApiError(403, "Forbidden", "cannot patch resource configmaps")
    site.turn()
    for kind in ("UniqueValuesWritten", "SlinkyAnnotated"):
        found = condition(site.api, kind)
        assert (found["status"], found["reason"]) == ("False", "Rejected")
        assert "cannot patch resource configmaps; apply the manifests of this version" in found["message"]
    site.refuses = None
    site.turn(1)
    assert condition(site.api, "UniqueValuesWritten")["reason"] == "Writing"


def test_topologies_for_which_the_plan_has_no_room_are_named() -> None:
    client, time = Lagging(NodePlan()), Time()
    writer = NodePlanWriter(client, client, "toposcope-system", time)  # type: ignore[arg-type]
    long = tuple(levels("x" * 60))
    entries = tuple(PlannedTopology(f"t{number:05}", (), long, ("x",)) for number in range(8000))
    there = [replace(topology(), name=entry.name, uid=entry.name) for entry in entries]
    writer.keep(NodePlan(entries), there)
    (text,) = client.written
    assert len(text.encode()) <= 768 << 10
    assert not decode(text).complete
    assert writer.refusal("t00000") == ""
    assert "has no room for it: 768 KiB" in writer.refusal("t07999")


# Pure.


def asked(nodes: Table, *topologies: Any) -> dict[str, PlannedTopology]:
    entries = {}
    for one in topologies:
        entry = planned(one, assess(one, Evidence(nodes), Memory(single_look=True)))
        if entry:
            entries[one.name] = entry
    return entries


def racks(*rows: tuple[str, str, str | None]) -> Table:
    nodes: list[NodeFacts] = []
    for name, block, value in rows:
        nodes.append(gpu_node(name, {"block": block, **({RACKS: value} if value else {})}))
    return Table(nodes)


def test_an_older_topology_answers_for_the_nodes_that_both_select() -> None:
    nodes = racks(("n1", "b1", "mine"), ("n2", "b2", "mine"), ("n3", "b2", "z.b2.r"))
    old = replace(topology(uniqueValues=["rack"], nodeSelector={"matchLabels": {BLOCK: "b1"}}), uid="old", name="old")
    young = topology(uniqueValues=["rack"])
    found = asked(nodes, old, young)
    assert unwritten_values(young, found["cluster"], nodes, [old, young]).first == "n2"
    assert unwritten_values(young, found["cluster"], nodes, [young, old]).nodes == 2


def test_annotations_are_compared_node_by_node() -> None:
    units = {"n1": "cluster-tree:r,cluster-block:r", "n2": "other"}
    nodes = Table(gpu_node(name, {SLINKY_KEPT: unit}) for name, unit in units.items())
    one = topology(publish={"slinky": "Auto"})
    found = unwritten_annotations(one, asked(nodes, one)["cluster"], nodes, [one])
    assert (found.nodes, found.first, found.found) == (1, "n2", "other")


def test_topologies_beyond_the_supported_number_lose_nothing() -> None:
    assert not plan_of([], {}, frozenset(), complete=False).complete


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"levels": [{"domain": "rack", "key": RACKS}]}, "is written from the levels"),
        ({"nodeSelector": {"matchLabels": {RACKS: "x"}}, "uniqueValues": ["rack"]}, "select nodes by another label"),
        (
            {"nodeSelector": {"matchExpressions": [{"key": RACKS, "operator": "Exists"}]}, "uniqueValues": ["rack"]},
            "select nodes by another label",
        ),
    ],
    ids=["level", "label", "expression"],
)
def test_topology_that_would_feed_itself_is_named_and_does_not(spec: dict[str, Any], says: str) -> None:
    metadata = {"name": "cluster", "uid": "u", "creationTimestamp": START.isoformat()}
    one = read({"metadata": metadata, "spec": spec})
    assert any(says in problem for problem in one.problems)
    nodes = racks(("n1", "b1", "x"), ("n2", "b2", "y"))
    entry = asked(nodes, one).get("cluster")
    assert entry is None or RACKS not in entry.input_keys()
