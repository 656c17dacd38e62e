"""Who asks for what in the end: owners, and the ClusterTopologies that have the levels or lack them."""

import pytest

from tests.support.cluster import BLOCK, RACK, ZONE
from toposcope.controller.requirements import resolve
from toposcope.integrations.framework.level_requests import LevelRequest, ObjectRequests, WorkloadRef, roll_up
from toposcope.topology.levels import Level

HOST = "kubernetes.io/hostname"
LEVELS = (Level("zone", ZONE), Level("block", BLOCK), Level("rack", RACK), Level("host", HOST))
ASKS_RACK = LevelRequest("rack", required=True)


def ref(name: str, kind: str = "Job") -> WorkloadRef:
    return WorkloadRef("example.com/v1", kind, "ns", name, f"uid-{name}")


def reading(
    name: str, *needs: LevelRequest, owner: WorkloadRef | None = None, finished: bool = False
) -> ObjectRequests:
    return ObjectRequests(ref(name), "1", owner, finished, needs)


class TestOwners:
    def test_what_is_owned_counts_as_its_owners(self) -> None:
        host = LevelRequest("host", required=False)
        found = roll_up(
            [
                reading("group", ASKS_RACK, host, owner=ref("set")),
                reading("set", owner=ref("job")),
                reading("job", host),
            ]
        )
        assert found == {ref("job"): (ASKS_RACK, host)}

    def test_the_order_does_not_matter(self) -> None:
        chain = [reading("a", ASKS_RACK), reading("b", ASKS_RACK, owner=ref("a")), reading("c", owner=ref("b"))]
        assert roll_up(chain) == roll_up(chain[::-1]) == {ref("a"): (ASKS_RACK,)}

    def test_an_owner_that_is_not_followed_is_the_workload(self) -> None:
        owner = ref("ray", "RayJob")
        assert roll_up([reading("a", ASKS_RACK, owner=owner), reading("b", ASKS_RACK, owner=owner)]) == {
            owner: (ASKS_RACK,)
        }

    def test_what_has_finished_asks_for_nothing_and_neither_does_what_it_owns(self) -> None:
        assert roll_up([reading("a", ASKS_RACK, finished=True), reading("b", ASKS_RACK, owner=ref("a"))]) == {}

    def test_an_owner_outlives_the_end_of_what_it_owns(self) -> None:
        assert roll_up([reading("a", ASKS_RACK), reading("b", ASKS_RACK, owner=ref("a"), finished=True)]) == {
            ref("a"): (ASKS_RACK,)
        }

    def test_what_asks_for_nothing_is_not_there(self) -> None:
        assert roll_up([reading("a"), ObjectRequests(ref("b"), problem="spoiled")]) == {}

    def test_owners_of_each_other_end_somewhere(self) -> None:
        found = roll_up([reading("a", ASKS_RACK, owner=ref("b")), reading("b", ASKS_RACK, owner=ref("a"))])
        assert set(found) <= {ref("a"), ref("b")}


def one(need: LevelRequest, **topologies: tuple[Level, ...]) -> dict[str, tuple[set[str], set[str]]]:
    """The domains that are required of each topology and those that it lacks, when one workload has that need."""
    found = resolve(topologies, {ref("w"): (need,)})
    for resolved in found.values():
        assert all(askers == (ref("w"),) for askers in (*resolved.required.values(), *resolved.missing.values()))
        assert not resolved.preferred
    return {name: (set(resolved.required), set(resolved.missing)) for name, resolved in found.items()}


@pytest.mark.parametrize("any_label", [True, False])
@pytest.mark.parametrize("term", ["rack", RACK])
def test_domains_and_keys_are_the_same_level(term: str, any_label: bool) -> None:
    assert one(LevelRequest(term, True, None, any_label), cluster=LEVELS) == {"cluster": ({"rack"}, set())}


@pytest.mark.parametrize("levels", [LEVELS, LEVELS[:2]], ids=["there", "lacking"])
@pytest.mark.parametrize("term", ["rack", RACK])
def test_a_preferred_level_is_used_and_not_required(term: str, levels: tuple[Level, ...]) -> None:
    found = resolve({"cluster": levels}, {ref("w"): (LevelRequest(term, required=False),)})["cluster"]
    assert (found.required, found.missing, found.preferred) == ({}, {}, {"rack": (ref("w"),)})


@pytest.mark.parametrize("levels", [LEVELS, LEVELS[:2]], ids=["there", "lacking"])
def test_who_requires_a_level_does_not_prefer_it_as_well(levels: tuple[Level, ...]) -> None:
    prefers = LevelRequest(RACK, required=False)
    found = resolve({"cluster": levels}, {ref("a"): (prefers, ASKS_RACK), ref("b"): (prefers,)})["cluster"]
    assert {**found.required, **found.missing} == {"rack": (ref("a"),)}
    assert found.preferred == {"rack": (ref("b"),)}


@pytest.mark.parametrize(
    ("need", "lacking"),
    [
        (LevelRequest("rack", required=True), {"rack"}),
        (LevelRequest(RACK, required=True), {"rack"}),  # a level that went keeps its name
        (LevelRequest("row", required=True), {"row"}),
        (LevelRequest("example.com/row", required=True), {"example.com/row"}),
        (
            LevelRequest("topology.k8s.aws/zone-id", required=True),
            {"topology.k8s.aws/zone-id"},
        ),  # there by another label
        (LevelRequest("topology.k8s.aws/zone-id", required=True, any_label=True), set()),
        (LevelRequest("cloud.google.com/gke-nodepool", required=True, any_label=True), set()),
        (LevelRequest(RACK, required=True, any_label=True), {"rack"}),
    ],
)
def test_levels_that_no_topology_has(need: LevelRequest, lacking: set[str]) -> None:
    levels = tuple(level for level in LEVELS if level.domain != "rack")
    assert one(need, cluster=levels) == {"cluster": (set(), lacking)}


def test_a_need_that_names_a_topology_concerns_that_one_only() -> None:
    need = LevelRequest("rack", required=True, topology="gb200")
    assert one(need, h100=LEVELS, gb200=LEVELS) == {"h100": (set(), set()), "gb200": ({"rack"}, set())}
    assert one(need, h100=LEVELS, gb200=LEVELS[:1]) == {"h100": (set(), set()), "gb200": (set(), {"rack"})}
    assert one(need, cluster=LEVELS) == {"cluster": (set(), set())}  # somebody else's topology


def test_a_need_that_names_none_concerns_all_that_have_the_level() -> None:
    assert one(ASKS_RACK, a=LEVELS, b=LEVELS, c=LEVELS[:2]) == {
        "a": ({"rack"}, set()),
        "b": ({"rack"}, set()),
        "c": (set(), set()),
    }


def test_what_no_topology_has_is_told_to_the_main_one_or_to_all() -> None:
    row = LevelRequest("row", required=True)
    assert one(row, a=LEVELS, cluster=LEVELS) == {"a": (set(), set()), "cluster": (set(), {"row"})}
    assert one(row, a=LEVELS, b=LEVELS) == {"a": (set(), {"row"}), "b": (set(), {"row"})}


def test_a_workload_counts_once_for_a_level_however_often_it_asks() -> None:
    asked = (
        ASKS_RACK,
        LevelRequest("rack", required=False),
        LevelRequest(RACK, required=True),
        LevelRequest("rack", True, "cluster"),
    )
    found = resolve({"cluster": LEVELS}, {ref("b"): asked, ref("a"): (ASKS_RACK,)})["cluster"]
    assert set(found.required) == {"rack"}
    assert sorted(w.name for w in found.required["rack"]) == ["a", "b"]
    assert len(found.required["rack"]) == 2


def test_no_topologies_and_no_needs() -> None:
    assert resolve({}, {ref("w"): (ASKS_RACK,)}) == {}
    assert not resolve({"cluster": ()}, {})["cluster"].missing
