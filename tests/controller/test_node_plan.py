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
        plan = NodePlanWriter(
            watched,
            watched,
            "toposcope-system",
            self.time,
        )
        wiring = Wiring(watched, runtime=self.time, node_plan=plan)
        self.controller = controller_of(self.client, Reconciler(wiring))
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
        data = self.api.get(PLAN)["data"]
        return decode(data["plan.json"])

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the ClusterTopology; empty when it is not there."""
        return condition(self.api, kind)

    def plan_version(self) -> str:
        version: str = self.api.get(PLAN)["metadata"]["resourceVersion"]
        return version

    def delete(self, path: str) -> None:
        status, _ = self.api.request("DELETE", path)
        assert status == 200


@pytest.fixture
def site(api: ApiUnderTest, clients: Clients) -> Site:
    share_crd(api)
    create_namespace(api, "toposcope-system")
    for name, block in {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2"}.items():
        labels = {ZONE: "z", BLOCK: block, RACK: "r1"}
        make_node(api, name, labels)
    return Site(api, clients())


EVERY_LEVEL = ["zone", "block", "rack", "nvlink-domain", "host"]


def domains_of(entry: PlannedTopology) -> list[str]:
    return [level.domain for level in entry.levels]


def test_the_plan_says_what_is_asked_for_and_the_controller_writes_no_node(site: Site) -> None:
    make_topology(
        site.api,
        uniqueValues=["rack"],
        publish={"slinky": "Auto"},
        gracePeriod="0s",
    )
    writes = site.turn()
    (entry,) = site.plan().topologies
    assert domains_of(entry) == EVERY_LEVEL
    assert entry.unique == ("rack",)
    assert entry.annotates is True
    assert entry.slurm is not None
    styles = [level.style.value for level in entry.slurm.tree]
    assert styles == ["value", "value", "path"]
    assert PLAN in writes
    for path in writes:
        assert not path.startswith(NODES)


def test_topology_that_asks_for_nothing_is_planned_with_its_levels(site: Site) -> None:
    make_topology(site.api, gracePeriod="0s")
    assert PLAN in site.turn()
    (entry,) = site.plan().topologies
    assert not entry.asks_for_keys
    assert domains_of(entry) == EVERY_LEVEL


def test_without_a_topology_there_is_no_plan(site: Site) -> None:
    assert PLAN not in site.turn()
    status, _ = site.api.request("GET", PLAN)
    assert status == 404


def test_the_plan_stays_as_it_is_while_nodes_come_and_go(site: Site) -> None:
    make_topology(
        site.api,
        uniqueValues=["rack"],
        publish={"slinky": "Auto"},
        gracePeriod="0s",
    )
    site.turn()
    version = site.plan_version()
    of_new_rack = {ZONE: "z", BLOCK: "b3", RACK: "r9"}
    make_node(site.api, "n5", of_new_rack)
    site.turn(61)
    site.delete(f"{NODES}/n1")
    relabel(site.api, "n2", {BLOCK: "b7"})
    site.turn(61)
    assert site.plan_version() == version


def test_the_plan_changes_with_the_levels_and_with_the_spec(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"], gracePeriod="0s")
    site.turn()
    for name in ("n1", "n2", "n3", "n4"):
        relabel(site.api, name, {BLOCK: None})
    site.turn()
    site.turn(1)
    (entry,) = site.plan().topologies
    assert domains_of(entry) == [
        "zone",
        "rack",
        "nvlink-domain",
        "host",
    ]
    edit_topology(site.api, uniqueValues=["zone", "rack"])
    site.turn()
    (entry,) = site.plan().topologies
    assert entry.unique == ("zone", "rack")
    edit_topology(site.api, uniqueValues=[])
    site.turn()
    (entry,) = site.plan().topologies
    assert not entry.asks_for_keys


def test_what_others_change_in_the_plan_is_repaired_within_a_minute(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"])
    site.turn()
    wanted = site.api.get(PLAN)["data"]
    site.api.patch(PLAN, {"data": {"plan.json": "{}"}})
    site.turn(61)
    assert site.api.get(PLAN)["data"] == wanted
    site.delete(PLAN)
    site.turn(61)
    assert site.api.get(PLAN)["data"] == wanted


def test_another_term_writes_nothing_that_is_there(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"])
    site.turn()
    site.new_term()
    assert PLAN not in site.turn()


@pytest.mark.regression
def test_deleted_topology_leaves_the_plan_a_minute_later(site: Site) -> None:
    asked: dict[str, Any] = {
        "uniqueValues": ["rack"],
        "publish": {"slinky": "Auto"},
    }
    make_topology(site.api, **asked)
    site.turn()
    before = site.plan()
    site.delete(f"{PATH}/cluster")
    for seconds in (0, 59):
        site.turn(seconds)
        assert site.plan() == before
    make_topology(site.api, **asked)
    site.turn(60)
    assert site.plan() == before
    site.delete(f"{PATH}/cluster")
    site.turn()
    site.turn(61)
    assert site.plan().topologies == ()


class Lagging:
    """Answers with a plan, and lists ClusterTopologies that the watch does not show."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        self.listed = [{"uid": "u", "generation": 1}]
        self.written: list[str] = []
        self.error: Exception | None = None

    def call(self, request: Request) -> Any:
        if request.method != "GET":
            document = json.loads(request.body or b"")
            self.written.append(document["data"]["plan.json"])
            return {}
        if request.path == PATH:
            if self.error:
                raise self.error
            items = [{"metadata": metadata} for metadata in self.listed]
            return {"metadata": {}, "items": items}
        return {"metadata": {}, "data": {"plan.json": encode(self.plan)}}

    def plans(self) -> list[NodePlan]:
        """What was written."""
        return [decode(text) for text in self.written]


def writer_of(client: Lagging, time: Time) -> NodePlanWriter:
    return NodePlanWriter(
        client,  # type: ignore[arg-type]
        client,
        "toposcope-system",
        time,
    )


@pytest.mark.regression
def test_topology_leaves_the_plan_only_where_a_list_shows_it_gone() -> None:
    gone = PlannedTopology("cluster", (), levels(ZONE), ("zone",))
    client = Lagging(NodePlan((gone,)))
    time = Time()
    writer = writer_of(client, time)
    for seconds in (0, 59, 1, 1):
        time.seconds += seconds
        writer.keep(NodePlan(), ())
    assert client.written == []
    client.error = UnreachableError("away")
    with pytest.raises(UnreachableError):
        writer.keep(NodePlan(), ())
    client.error = None
    client.listed = []
    writer.keep(NodePlan(), ())
    assert client.plans() == [NodePlan()]


def test_a_plan_that_cannot_be_read_is_written_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = Lagging(NodePlan())
    client.plan = replace(client.plan, placeholders=frozenset({"x"}))
    of_zones = PlannedTopology("cluster", (), levels(ZONE), ("zone",))
    wanted = NodePlan((of_zones,))
    writer = writer_of(client, Time())
    writer.keep(wanted, [topology(uniqueValues=["zone"])])
    assert client.plans() == [wanted]
    assert caplog.messages == ["the agents' plan is written: 1 ClusterTopology, 1 ask for keys on nodes"]


# What the status says.


def test_the_status_says_which_nodes_their_agents_have_not_written_yet(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack"], gracePeriod="0s")
    site.turn()
    written = site.condition("UniqueValuesWritten")
    assert written["status"] == "Unknown"
    assert written["reason"] == "Writing"
    assert written["message"].startswith(f"{RACKS} is not up to date yet on 4 nodes, first n1; the agents write it")
    values = {
        "n1": "z.b1.r1",
        "n2": "z.b1.r1",
        "n3": "z.b1.r1",
        "n4": "z.b2.r1",
    }
    for name, value in values.items():
        relabel(site.api, name, {RACKS: value})
    site.turn()
    written = site.condition("UniqueValuesWritten")
    assert "on 1 node, first n3, which carries 'z.b1.r1'; " in written["message"]
    relabel(site.api, "n3", {RACKS: "z.b2.r1"})
    site.turn()
    written = site.condition("UniqueValuesWritten")
    assert written["reason"] == "InSync"
    edit_topology(site.api, uniqueValues=[])
    site.turn()
    assert site.condition("UniqueValuesWritten") == {}
    assert "uniqueValues" not in status_of(site.api)


def test_a_level_that_is_not_in_effect_is_named(site: Site) -> None:
    make_topology(site.api, uniqueValues=["rack", "tray"])
    site.turn()
    written = site.condition("UniqueValuesWritten")
    assert written["reason"] == "LevelMissing"
    assert "level tray is not in effect" in written["message"]


def test_a_dry_run_says_what_slinky_would_get_and_plans_nothing(site: Site) -> None:
    make_topology(site.api, publish={"slinky": "DryRun"}, gracePeriod="0s")
    site.turn()
    (entry,) = site.plan().topologies
    assert not entry.asks_for_keys
    assert entry.slurm is None
    annotated = site.condition("SlinkyAnnotated")
    assert annotated["reason"] == "DryRun"
    units = "cluster-tree:z.b1.r1,cluster-block:z.b1.r1"
    assert f"{SLINKY} of 4 nodes, first n1: {units}" in annotated["message"]


def test_annotations_are_not_called_right_while_no_level_is_known(site: Site) -> None:
    make_topology(
        site.api,
        publish={"slinky": "Auto"},
        nodeSelector={"matchLabels": {"example.com/none": "x"}},
    )
    site.turn()
    annotated = site.condition("SlinkyAnnotated")
    assert annotated["status"] == "Unknown"
    assert annotated["reason"] == "NoLevels"
    assert site.plan().topologies[0].slurm is None


def annotate(site: Site, node: str, unit: str) -> None:
    """Give a node Slinky's annotation."""
    body = {"metadata": {"annotations": {SLINKY: unit}}}
    site.api.patch(f"{NODES}/{node}", body)


def test_slinkys_annotation_of_another_owner_is_named_and_stays(site: Site) -> None:
    make_topology(site.api, publish={"slinky": "Auto"}, gracePeriod="0s")
    site.turn()
    of_b1 = "cluster-tree:z.b1.r1,cluster-block:z.b1.r1"
    of_b2 = "cluster-tree:z.b2.r1,cluster-block:z.b2.r1"
    annotate(site, "n1", of_b1)
    annotate(site, "n2", of_b1)
    annotate(site, "n3", of_b2)
    annotate(site, "n4", "mine")
    site.turn()
    message = site.condition("SlinkyAnnotated")["message"]
    assert message.startswith(
        f"{SLINKY} is not up to date yet on 1 node, first n4, which carries 'mine'; the agents write it"
    )
    annotate(site, "n4", of_b2)
    site.turn()
    annotated = site.condition("SlinkyAnnotated")
    assert annotated["reason"] == "InSync"


def test_a_plan_that_may_not_be_written_is_said_in_the_status(site: Site) -> None:
    make_topology(
        site.api,
        uniqueValues=["rack"],
        publish={"slinky": "Auto"},
    )
    site.refuses = ApiError(403, "Forbidden", "cannot patch resource configmaps")
    site.turn()
    for kind in ("UniqueValuesWritten", "SlinkyAnnotated"):
        refused = site.condition(kind)
        assert refused["status"] == "False"
        assert refused["reason"] == "Rejected"
        assert "cannot patch resource configmaps; apply the manifests of this version" in refused["message"]
    site.refuses = None
    site.turn(59)
    assert site.condition("UniqueValuesWritten")["reason"] == "Rejected"  # not sent again in each pass
    site.turn(1)
    written = site.condition("UniqueValuesWritten")
    assert written["reason"] == "Writing"


def test_topologies_for_which_the_plan_has_no_room_are_named() -> None:
    client = Lagging(NodePlan())
    writer = writer_of(client, Time())
    long = tuple(levels("x" * 60))
    entries = []
    selected = []
    for number in range(8000):
        name = f"t{number:05}"
        entries.append(PlannedTopology(name, (), long, ("x",)))
        selected.append(replace(topology(), name=name, uid=name))
    writer.keep(NodePlan(tuple(entries)), selected)
    (text,) = client.written
    assert len(text.encode()) <= 768 << 10
    assert not decode(text).complete
    assert writer.refusal("t00000") == ""
    assert "is full: its 768 KiB" in writer.refusal("t07999")


# Pure.


def asked(nodes: Table, *topologies: Any) -> dict[str, PlannedTopology]:
    entries = {}
    for one in topologies:
        evidence = Evidence(nodes)
        entry = planned(one, assess(one, evidence, Memory(is_single_look=True)))
        if entry:
            entries[one.name] = entry
    return entries


def racks(*rows: tuple[str, str, str | None]) -> Table:
    nodes: list[NodeFacts] = []
    for name, block, value in rows:
        labels: dict[str, str | None] = {"block": block}
        if value:
            labels[RACKS] = value
        nodes.append(gpu_node(name, labels))
    return Table(nodes)


def test_an_older_topology_answers_for_the_nodes_that_both_select() -> None:
    nodes = racks(
        ("n1", "b1", "mine"),
        ("n2", "b2", "mine"),
        ("n3", "b2", "z.b2.r"),
    )
    of_b1 = topology(
        uniqueValues=["rack"],
        nodeSelector={"matchLabels": {BLOCK: "b1"}},
    )
    old = replace(of_b1, uid="old", name="old")
    young = topology(uniqueValues=["rack"])
    entry = asked(nodes, old, young)["cluster"]
    after_old = unwritten_values(young, entry, nodes, [old, young])
    assert after_old.first == "n2"
    before_old = unwritten_values(young, entry, nodes, [young, old])
    assert before_old.nodes == 2


def test_annotations_are_compared_node_by_node() -> None:
    of_racks = gpu_node("n1", {SLINKY_KEPT: "cluster-tree:r,cluster-block:r"})
    of_others = gpu_node("n2", {SLINKY_KEPT: "other"})
    nodes = Table([of_racks, of_others])
    one = topology(publish={"slinky": "Auto"})
    entry = asked(nodes, one)["cluster"]
    unwritten = unwritten_annotations(one, entry, nodes, [one])
    assert unwritten.nodes == 1
    assert unwritten.first == "n2"
    assert unwritten.found == "other"


def test_topologies_beyond_the_supported_number_lose_nothing() -> None:
    assert not plan_of([], {}, frozenset(), complete=False).complete


BY_LABEL = {"matchLabels": {RACKS: "x"}}
BY_EXPRESSION = {"matchExpressions": [{"key": RACKS, "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param(
            {"levels": [{"domain": "rack", "key": RACKS}]},
            "is derived from the levels",
            id="level",
        ),
        pytest.param(
            {"nodeSelector": BY_LABEL, "uniqueValues": ["rack"]},
            "select nodes by another label",
            id="label",
        ),
        pytest.param(
            {"nodeSelector": BY_EXPRESSION, "uniqueValues": ["rack"]},
            "select nodes by another label",
            id="expression",
        ),
    ],
)
def test_topology_that_would_feed_itself_is_named_and_does_not(spec: dict[str, Any], says: str) -> None:
    metadata = {
        "name": "cluster",
        "uid": "u",
        "creationTimestamp": START.isoformat(),
    }
    one = read({"metadata": metadata, "spec": spec})
    assert any(says in problem for problem in one.problems)
    nodes = racks(("n1", "b1", "x"), ("n2", "b2", "y"))
    entry = asked(nodes, one).get("cluster")
    assert entry is None or RACKS not in entry.input_keys()
