"""Labels whose value alone tells domains apart: what they say, on which nodes, and that they go when nobody asks."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.api import NODES, ApiUnderTest
from tests.support.cluster import gpu_node, topology
from tests.support.controller import (
    condition,
    edit_topology,
    full_controller,
    make_node,
    make_topology,
    relabel,
    share_crd,
    status_of,
)
from tests.support.publishing import Time
from tests.support.tables import each_case
from toposcope.api.cluster_topology import Topology
from toposcope.controller.unique_labels import LONGEST, UniqueLabels, changes, unique_value
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError
from toposcope.topology.levels import Level
from toposcope.topology.platforms import PLACEHOLDERS
from toposcope.topology.table import Table

ZONE, BLOCK, RACK = (
    Level("zone", "topology.kubernetes.io/zone"),
    Level("block", "cloud.google.com/gce-topology-block"),
    Level("rack", "cloud.google.com/gce-topology-subblock"),
)
LEVELS = (ZONE, BLOCK, RACK)
UNIQUE = "gpu.topology/unique-rack"


@each_case("tables/controller.yaml")
def test_a_path_as_one_value(path: tuple[str, ...], beginning: str) -> None:
    found = unique_value(path)
    assert len(found) == len(beginning) + 12 * beginning.endswith("-") <= LONGEST
    assert found.startswith(beginning)


def test_paths_that_read_alike_get_values_of_their_own() -> None:
    paths = [("a.b", "c"), ("a", "b.c"), ("a", "b", "c"), ("", "a", "c"), ("a", "", "c"), ("a" * 70,), ("a" * 71,)]
    assert len({unique_value(path) for path in paths}) == len(paths)


def wanted(nodes: Table, asking: Topology, *others: Topology) -> dict[str, dict[str, str | None]]:
    return {one.node: dict(one.labels) for one in changes(asking, LEVELS, nodes, (*others, asking))}


def table(*rows: tuple[str, str, str | None]) -> Table:
    return Table(
        [gpu_node(name, {"block": block, **({UNIQUE: value} if value else {})}) for name, block, value in rows],
        PLACEHOLDERS,
    )


def test_what_is_written_and_what_goes() -> None:
    asking = topology(uniqueValues=["rack"])
    nodes = table(
        ("new", "b1", None), ("right", "b2", "z.b2.r"), ("wrong", "b2", "z.b1.r"), ("lost", "no-topology", "x")
    )
    assert wanted(nodes, asking) == {"new": {UNIQUE: "z.b1.r"}, "wrong": {UNIQUE: "z.b2.r"}, "lost": {UNIQUE: None}}
    no_more = topology({"uniqueValues": ["rack"]})
    assert wanted(nodes, no_more) == {name: {UNIQUE: None} for name in ("right", "wrong", "lost")}
    assert changes(asking, LEVELS[:2], nodes) == []  # the level is not in effect: that says nothing


def test_the_older_of_two_topologies_decides() -> None:
    nodes = table(("n", "b1", None), ("other", "b2", "x"))
    everywhere = topology(uniqueValues=["rack"])
    first = {"matchLabels": {BLOCK.key: "b1"}}
    part = replace(topology(uniqueValues=["rack"], nodeSelector=first), uid="uid-part", name="part")
    assert wanted(nodes, everywhere, part) == {"other": {UNIQUE: "z.b2.r"}}
    assert wanted(nodes, part) == {"n": {UNIQUE: "z.b1.r"}, "other": {UNIQUE: None}}
    assert {one.node for one in changes(part, LEVELS, nodes, (everywhere, part))} == set()


def test_a_pass_writes_for_some_seconds_and_stops_where_it_is_refused() -> None:
    time, sent = Time(), []

    class Client:
        refuse = False

        def call(self, request: Request) -> None:
            if self.refuse:
                raise ApiError(403, "Forbidden", "no")
            sent.append(request.path)
            time.seconds += 0.9

    asking, client = topology(uniqueValues=["rack"]), Client()
    found = changes(asking, LEVELS, table(*((f"n{i}", "b1", None) for i in range(5))))
    labels = UniqueLabels(client, time)
    assert [labels.write(found), len(sent)] == [(2, None), 3]
    assert [labels.write(found), len(sent)] == [(0, None), 5]  # those that the watch does not show yet are known
    time.seconds += 100
    client.refuse = True
    left, error = labels.write(found)
    assert (left, error and error.message) == (5, "no")


def test_labels_come_and_go_with_the_spec(api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time) -> None:
    share_crd(api)
    for name, block in (("n1", "b1"), ("n2", "b2")):
        make_node(api, name, {ZONE.key: "z", BLOCK.key: block, RACK.key: "r1"})
    make_topology(api, uniqueValues=["rack", "tray"], gracePeriod="0s")
    controller = full_controller(clients(), time)

    def seen() -> dict[str, str | None]:
        controller.once()
        return {name: api.get(f"{NODES}/{name}")["metadata"]["labels"].get(UNIQUE) for name in ("n1", "n2")}

    right = {"n1": "z.b1.r1", "n2": "z.b2.r1"}
    assert seen() == right
    assert condition(api, "UniqueValuesWritten")["reason"] == "LevelMissing"
    seen()
    relabel(api, "n1", {UNIQUE: "mine"})
    edit_topology(api, uniqueValues=["rack"])
    assert seen() == right
    assert (condition(api, "UniqueValuesWritten")["reason"], status_of(api)["uniqueValues"]) == ("InSync", ["rack"])
    edit_topology(api, uniqueValues=[])
    assert seen() == {"n1": None, "n2": None}
    seen()
    assert "uniqueValues" not in status_of(api)
    assert condition(api, "UniqueValuesWritten") == {}
