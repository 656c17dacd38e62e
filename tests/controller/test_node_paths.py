"""The paths of all nodes in one object: written only when one changes, and gone with the flag."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, create_namespace
from tests.support.bound_pods import PATHS, create_node_paths, share_node_paths
from tests.support.cluster import BLOCK, RACK, ZONE, gpu_node
from tests.support.controller import controller_of, edit_topology, make_node, make_topology, relabel, share_crd
from tests.support.publishing import Time, WatchedClient, levels
from toposcope.api.levels import Level
from toposcope.api.requirement import Requirement
from toposcope.controller.loop import Controller
from toposcope.controller.node_paths import SharedPaths, shared_paths
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.node_paths import NodePathsWriter
from toposcope.controller.writers.node_plan import NodePlanWriter
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.integrations.binding_paths import shared_path
from toposcope.integrations.node_path import path_of
from toposcope.integrations.node_plan import NodePlan, PlannedTopology
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, UnreachableError

HOST = "kubernetes.io/hostname"
THREE = NodePlan((PlannedTopology("cluster", (), levels(BLOCK, RACK, HOST)),))


@dataclass
class Site:
    """A controller that makes passes, and what it writes to the object of paths."""

    api: ApiUnderTest
    client: ApiClient
    time: Time = field(default_factory=Time)
    writes: list[str] = field(default_factory=list)
    refuses: Exception | None = None

    def __post_init__(self) -> None:
        self.controller = self.new_term()

    def new_term(self, *, is_wanted: bool = True) -> Controller:
        watched: Any = WatchedClient(self.client, self._note)
        home = "toposcope-system"
        wiring = Wiring(
            watched,
            runtime=self.time,
            node_plan=NodePlanWriter(watched, watched, home, self.time),
            node_paths=NodePathsWriter(watched, home, self.time, is_wanted=is_wanted),
        )
        self.controller = controller_of(self.client, Reconciler(wiring))
        return self.controller

    def _note(self, request: Request) -> None:
        if request.path != PATHS or request.method == "GET":
            return
        self.writes.append(request.method)
        if self.refuses:
            raise self.refuses

    def turn(self, seconds: float = 0.0) -> list[str]:
        """Make a pass after some seconds; what it wrote."""
        self.time.seconds += seconds
        self.writes.clear()
        self.controller.once()
        return self.writes

    def data(self) -> Mapping[str, str]:
        data: Mapping[str, str] = self.api.get(PATHS)["data"]
        return data

    def has_object(self) -> bool:
        status, _ = self.api.request("GET", PATHS)
        return status == 200


@pytest.fixture
def site(api: ApiUnderTest, clients: Clients) -> Site:
    share_crd(api)
    share_node_paths(api)
    create_namespace(api, "toposcope-system")
    for name, block in {"n1": "b1", "n2": "b1", "n3": "b2"}.items():
        labels = {ZONE: "z", BLOCK: block, RACK: f"r-{block}"}
        make_node(api, name, labels)
    make_topology(api, gracePeriod="0s")
    client = clients()
    return Site(api, client)


WHOLE = {
    "starts": "n1\nn2\nn3",
    "0": "\nn1=0\n",
    "1": "\nn2=0\n",
    "2": "\nn3=1\n",
    "paths": ("\n0:zone=z,block=b1,rack=r-b1,nvlink-domain=,host=\n1:zone=z,block=b2,rack=r-b2,nvlink-domain=,host=\n"),
}


def test_paths_of_all_nodes_are_written_once(site: Site) -> None:
    assert site.turn() == ["PATCH"]
    assert site.data() == WHOLE
    metadata = site.api.get(PATHS)["metadata"]
    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "toposcope"}
    assert site.turn(1) == []
    assert site.turn(3600) == []


def test_another_term_writes_nothing_that_is_there(site: Site) -> None:
    site.turn()
    site.new_term()
    assert site.turn() == []


def test_node_that_comes_moves_or_goes_is_followed(site: Site) -> None:
    site.turn()
    like_n1 = {
        ZONE: "z",
        BLOCK: "b1",
        RACK: "r-b1",
    }
    make_node(site.api, "n4", like_n1)
    assert site.turn(11) == ["PATCH"]
    assert site.data()["3"] == "\nn4=0\n"

    relabel(site.api, "n4", {RACK: "r9"})
    assert site.turn(11) == ["PATCH"]
    paths = site.data()["paths"]
    assert "\n2:zone=z,block=b1,rack=r9,nvlink-domain=,host=\n" in paths

    site.api.request("DELETE", f"{NODES}/n4")
    assert site.turn(11) == ["PATCH"]
    assert site.data() == WHOLE


def test_label_that_is_no_level_changes_nothing(site: Site) -> None:
    site.turn()
    relabel(site.api, "n1", {"example.com/pool": "x"})
    assert site.turn(61) == []


def test_changes_within_ten_seconds_are_one_write(site: Site) -> None:
    site.turn()
    relabel(site.api, "n1", {RACK: "r8"})
    assert site.turn(1) == []
    relabel(site.api, "n2", {RACK: "r9"})
    assert site.turn(1) == []
    assert site.turn(9) == ["PATCH"]
    paths = site.data()["paths"]
    assert "rack=r8," in paths
    assert "rack=r9," in paths


def test_node_without_a_level_has_the_path_up_to_it(site: Site) -> None:
    edit_topology(site.api, minCoveragePercent=50)
    relabel(site.api, "n3", {RACK: None})
    site.turn()
    paths = site.data()["paths"]
    assert "\n1:zone=z,block=b2\n" in paths


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"data": {"paths": "\n0:rack=forged\n"}}, id="changed"),
        pytest.param({"data": {"starts": None}}, id="removed"),
        pytest.param({"data": {"junk": "x"}}, id="added"),
    ],
)
def test_what_others_change_is_repaired_within_a_minute(site: Site, patch: dict[str, Any]) -> None:
    site.turn()
    site.api.patch(PATHS, patch)
    site.turn(61)
    assert site.data() == WHOLE
    assert site.turn(61) == []


def test_deleted_object_is_made_again(site: Site) -> None:
    site.turn()
    site.api.request("DELETE", PATHS)
    assert site.turn(61) == ["PATCH"]
    assert site.data() == WHOLE


def test_without_the_flag_it_is_deleted_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.turn()
    caplog.set_level(logging.INFO)
    site.new_term(is_wanted=False)
    assert site.turn() == ["DELETE"]
    assert not site.has_object()
    assert "toposcope-node-paths is deleted: the flag --node-paths is not set" in caplog.text
    assert site.turn(61) == []


def test_without_the_flag_the_object_of_others_stays(site: Site) -> None:
    create_node_paths(site.api, {})
    site.api.patch(PATHS, {"metadata": {"labels": None}})
    site.new_term(is_wanted=False)
    assert site.turn() == []
    assert site.has_object()


def test_refused_write_is_logged_once_and_tried_each_minute(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.refuses = ApiError(403, "Forbidden", "cannot patch resource nodepaths")
    assert site.turn() == ["PATCH"]
    assert site.turn(59) == []
    assert site.turn(2) == ["PATCH"]
    (warning,) = [message for message in caplog.messages if "is not written" in message]
    assert warning.endswith("; install the component binding-labels, or leave out --node-paths")
    site.refuses = None
    assert site.turn(61) == ["PATCH"]


def test_component_is_named_where_its_kind_is_not_served(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.refuses = ApiError(404, "NotFound", "404 page not found")
    assert site.turn() == ["PATCH"]
    (warning,) = [message for message in caplog.messages if "is not written" in message]
    assert warning.endswith("; install the component binding-labels, or leave out --node-paths")


def test_outage_is_a_failed_pass_and_the_next_one_writes(site: Site) -> None:
    site.refuses = UnreachableError("away")
    with pytest.raises(UnreachableError):
        site.turn()
    site.refuses = None
    assert site.turn(1) == ["PATCH"]


class NoPaths:
    """An API server without the object, and what is written to it."""

    def __init__(self) -> None:
        self.written: list[Request] = []

    def call(self, request: Request) -> Any:
        if request.method == "GET":
            raise ApiError(404, "NotFound", "no")
        self.written.append(request)
        return {}


def writer_to(server: NoPaths, show: Callable[[str], None] | None = None) -> NodePathsWriter:
    return NodePathsWriter(
        server,
        "toposcope-system",
        Time(),
        is_wanted=True,
        show=show,
    )


def test_dry_run_says_what_would_be_written_once() -> None:
    shown: list[str] = []
    server = NoPaths()
    writer = writer_to(server, shown.append)
    node = gpu_node("n1", {RACK: "r1"})
    nodes = Table([node])
    for _ in range(2):
        writer.write(nodes, THREE)
    assert shown == ["NodePaths toposcope-system/toposcope-node-paths would be written: the paths of 1 node"]
    assert server.written == []


def test_nodes_without_room_are_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    nodes = []
    for number in range(30_000):
        name = f"gpu-node-{number:06d}.cluster.example.com"
        rack = number // 16
        node = gpu_node(name, {RACK: f"r{rack}", HOST: name})
        nodes.append(node)
    table = Table(nodes)
    server = NoPaths()
    writer_to(server).write(table, THREE)
    (warning,) = caplog.messages
    assert "is full: its 960 KiB have no room for the paths of " in warning


def test_pass_without_a_plan_leaves_the_paths_alone() -> None:
    server = NoPaths()
    node = gpu_node("n1", {RACK: "r1"})
    nodes = Table([node])
    writer_to(server).write(nodes, None)
    assert server.written == []


# Pure.


def test_nodes_that_are_alike_share_a_path() -> None:
    nodes = [
        gpu_node("n1", {"rack": "r1"}),
        gpu_node("n2", {"rack": "r1"}),
        gpu_node("n3", {"rack": "r1", HOST: "other"}),
        gpu_node("n4", {"block": None}),
    ]
    paths = {
        "n1": "block=b,rack=r1,host=",
        "n2": "block=b,rack=r1,host=",
        "n3": "block=b,rack=r1,host=other",
    }
    assert shared_paths(THREE, nodes) == SharedPaths(paths)


def test_level_whose_name_is_too_long_for_a_label_is_counted() -> None:
    too_long = Level("l" * 59, RACK)
    topology = PlannedTopology("cluster", (), (too_long,))
    plan = NodePlan((topology,))
    nodes = [
        gpu_node("n1", {"rack": "r1"}),
        gpu_node("n2", {"rack": "r1"}),
        gpu_node("n3", {"rack": None}),
    ]
    assert shared_paths(plan, nodes) == SharedPaths({}, unusable=2)


def of_hosts(*names: str) -> tuple[Requirement, ...]:
    is_one_of = Requirement(HOST, "In", frozenset(names))
    return (is_one_of,)


BY_HOST = PlannedTopology("some", of_hosts("n1", "h2"), levels(RACK, HOST))
ALL_ELSE = PlannedTopology("all", (), levels(BLOCK, HOST))
RACKS_ALONE = PlannedTopology("cluster", (), levels(RACK))
PLANS = {
    "levels": THREE,
    "selected-by-host": NodePlan((BY_HOST, ALL_ELSE)),
    "placeholders": replace(THREE, placeholders=frozenset({"n2", "h1", "b0"})),
    "rack-alone": NodePlan((RACKS_ALONE,)),
}


def every_node() -> list[NodeFacts]:
    """Nodes named and labelled in all ways that matter to what they share; those that are alike share their traits."""
    nodes = []
    for rack in ("r1", "n2", "h1"):
        for host in ("own", "h1", "h2", None):
            nodes += alike_nodes(rack, host)
    return nodes


def alike_nodes(rack: str, host: str | None) -> list[NodeFacts]:
    """Three nodes of a rack with this hostname, or each with its own."""
    nodes: list[NodeFacts] = []
    for number in range(3):
        name = f"n{number}-{rack}-{host}"
        if rack == "r1" and host == "own":
            name = f"n{number}"
        labels: dict[str, str | None] = {"block": "b0", "rack": rack}
        labels[HOST] = name if host == "own" else host
        node = gpu_node(name, labels)
        if nodes and node.traits == nodes[0].traits:
            node = replace(node, traits=nodes[0].traits)
        nodes.append(node)
    return nodes


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_shared_paths_are_those_of_each_node_by_itself(plan: NodePlan) -> None:
    nodes = every_node()
    alone = {}
    for node in nodes:
        steps = path_of(plan, node).steps
        path = shared_path(node.name, steps)
        if path:
            alone[node.name] = path
    assert shared_paths(plan, nodes).by_node == alone
