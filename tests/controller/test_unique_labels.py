"""Labels whose value alone tells domains apart: what they say, on which nodes, and that they go when nobody asks."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from tests.support.cluster import BLOCK, RACK, ZONE, gpu_node, topology
from tests.support.controller import NoWorkloads
from tests.support.publishing import Time, levels
from tests.support.tables import each_case
from toposcope.api.cluster_topology import Topology
from toposcope.controller.node_keys import NodeKeys
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.unique_labels import LONGEST, changes, unique_value
from toposcope.kube.client import Request
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.topology.platforms import PLACEHOLDERS
from toposcope.topology.table import Table

LEVELS = levels(ZONE, BLOCK, RACK)
UNIQUE = "gpu.topology/unique-rack"
NONE: dict[str, Any] = {"metadata": {}}
REFUSED = ApiError(403, "Forbidden", "no")


@each_case("tables/controller.yaml")
def test_a_path_as_one_value(path: tuple[str, ...], beginning: str) -> None:
    found = unique_value(path)
    assert len(found) == len(beginning) + 12 * beginning.endswith("-") <= LONGEST
    assert found.startswith(beginning)


def test_paths_that_read_alike_get_values_of_their_own() -> None:
    paths = [("a.b", "c"), ("a", "b.c"), ("a", "b", "c"), ("", "a", "c"), ("a", "", "c"), ("a" * 70,), ("a" * 71,)]
    assert len({unique_value(path) for path in paths}) == len(paths)


def wanted(nodes: Table, asking: Topology, *others: Topology) -> dict[str, dict[str, str | None]]:
    return {change.node: dict(change.values) for change in changes(asking, LEVELS, nodes, (*others, asking))}


def table(*rows: tuple[str, str, str | None]) -> Table:
    nodes = [gpu_node(name, {"block": block, **({UNIQUE: value} if value else {})}) for name, block, value in rows]
    return Table(nodes, PLACEHOLDERS)


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
    first = {"matchLabels": {BLOCK: "b1"}}
    part = replace(topology(uniqueValues=["rack"], nodeSelector=first), uid="uid-part", name="part")
    assert wanted(nodes, everywhere, part) == {"other": {UNIQUE: "z.b2.r"}}
    assert wanted(nodes, part) == {"n": {UNIQUE: "z.b1.r"}, "other": {UNIQUE: None}}
    assert {change.node for change in changes(part, LEVELS, nodes, (everywhere, part))} == set()


class Client:
    def __init__(self, time: Time, *answers: dict[str, Any] | KubeError) -> None:
        self.time, self.answers, self.sent = time, [*answers], list[str]()

    def call(self, request: Request) -> Any:
        self.sent.append(request.method)
        self.time.seconds += 0.9
        if isinstance(answer := self.answers.pop(0), KubeError):
            raise answer
        return answer


def test_a_pass_writes_for_some_seconds_and_stops_where_it_is_refused() -> None:
    asking, client = topology(uniqueValues=["rack"]), Client(Time(), *[NONE] * 5, REFUSED)
    found = changes(asking, LEVELS, table(*((f"n{i}", "b1", None) for i in range(5))))
    labels = NodeKeys(client, client.time)
    assert [labels.write(found), len(client.sent)] == [(2, None, ""), 3]
    assert [labels.write(found), len(client.sent)] == [(0, None, ""), 5]  # what the watch does not show yet is known
    client.time.seconds += 100
    assert labels.write(found) == (5, REFUSED, "n0")


def test_labels_of_a_deleted_topology_go_only_where_a_list_shows_that_it_is() -> None:
    made_since = NONE | {"items": [{"metadata": {"uid": "another"}}]}
    client = Client(Time(), made_since, UnreachableError("gone"), NONE, REFUSED, NONE, NONE)
    reconciler = Reconciler(client, (), client.time)  # type: ignore[arg-type]
    for after, asked in ((0, ""), (59, ""), (1, "GET"), (1, "GET"), (1, "GET PATCH"), (598, ""), (1, "GET PATCH")):
        client.time.seconds, client.sent = client.time.seconds + after, []
        with suppress(UnreachableError):
            reconciler.reconcile((), table(("n", "b1", "x")), NoWorkloads())
        assert client.sent == asked.split()
