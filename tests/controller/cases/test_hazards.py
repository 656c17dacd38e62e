"""What can go wrong between Toposcope and the schedulers that read what it publishes; each hazard with its handling."""

from collections.abc import Sequence

import pytest
from tests.controller.cases import objects
from tests.controller.cases.model import Machine, gone, levels
from tests.controller.cases.world import KUEUE, World
from tests.support.api import CRDS, crd_conditions
from tests.support.publishing import BINDINGS, KAI, binding, found, kai_topology, kueue_topology
from tests.support.tables import named_objects
from tools.apiserver.grove_operator import GroveExitError, start_grove
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level, level_problems

pytestmark = pytest.mark.slow

HERE = {
    "levels": levels(*objects.THREE),
    "publish": {"kueue": "Never"},
}
INFERRED = {
    "publish": {
        "kai": "Never",
        "grove": "Never",
    }
}


def test_our_short_name_is_nobody_else_s(at: World) -> None:
    accepted = {}
    for crd in at.api.get(CRDS)["items"]:
        name = crd["metadata"]["name"]
        accepted[name] = crd_conditions(crd)["NamesAccepted"]
    assert "clustertopologies.gpu.topology" in accepted
    assert "clustertopologybindings.grove.io" in accepted
    assert "topologies.kueue.x-k8s.io" in accepted
    assert len(accepted) > 3
    assert set(accepted.values()) == {"True"}


def test_grove_starts_beside_a_kai_topology_of_somebody_else(at: World) -> None:
    at.begin(objects.cluster(2))
    theirs = at.api.create(KAI, kai_topology(objects.ZONE))
    made = at.api.create(BINDINGS, binding(*objects.THREE))
    with pytest.raises(GroveExitError, match="is not owned by ClusterTopologyBinding"):
        start_grove(at.api)
    at.delete(f"{BINDINGS}/{made['metadata']['name']}")
    at.make_topology("cluster", HERE)
    at.reconcile()  # in which Grove starts
    assert found(at.api, f"{BINDINGS}/cluster") is None
    assert at.api.get(f"{KAI}/cluster") == theirs
    status, reason, text = at.status_of().conditions["Published"]
    assert status == "False"
    assert reason == "Conflict"
    assert "Grove's operator does not start while a binding has that name" in text


def test_a_kai_topology_of_ours_is_there_all_the_time_when_grove_comes(at: World) -> None:
    only_kai = {"kueue": "Never", "grove": "Never"}
    at.start(objects.cluster(2), {**HERE, "publish": only_kai})
    before = at.api.get(f"{KAI}/cluster")
    at.api.patch(f"{PATH}/cluster", {"spec": {"publish": {"grove": "Auto"}}})
    at.reconcile()  # in which Grove starts
    assert at.api.get(f"{KAI}/cluster") == before
    status = at.status_of()
    assert status.grove == objects.THREE
    assert status.conditions == {}
    at.restart()
    at.reconcile()
    assert at.api.get(f"{KAI}/cluster") == before


SEVENTEEN = [(f"l{number}", f"example.com/l{number}") for number in range(17)]


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param(SEVENTEEN, id="17-levels"),
        pytest.param([("rack", "Example.com/rack")], id="upper-case-prefix"),
        pytest.param([("rack", "my_co/rack")], id="underscore-in-the-prefix"),
        pytest.param([("rack", "a..b/rack")], id="empty-part-of-the-prefix"),
    ],
)
def test_grove_starts_after_levels_that_it_takes_and_kai_refuses(at: World, pairs: list[tuple[str, str]]) -> None:
    at.begin(objects.cluster(1))
    at.api.create(BINDINGS, binding(*pairs))
    with pytest.raises(GroveExitError, match=r"spec\.levels"):
        start_grove(at.api)
    at.delete(f"{BINDINGS}/cluster")
    spec = {"levels": levels(*pairs), "publish": {"kueue": "Never"}}
    code, _ = at.make_topology("cluster", spec)
    if code == 201:
        at.reconcile()
        _, reason, _ = at.status_of().conditions["Published"]
        assert reason == "InvalidSpec"
    assert at.api.get(BINDINGS)["items"] == []
    assert problems_of(pairs)


def problems_of(pairs: list[tuple[str, str]]) -> Sequence[str]:
    return level_problems([Level(*pair) for pair in pairs])


def dry_run_codes(at: World, pairs: list[tuple[str, str]]) -> list[int]:
    """What Grove, KAI and Kueue answer to objects with these levels."""
    keys = [key for _, key in pairs]
    bodies = {
        BINDINGS: binding(*pairs),
        KAI: kai_topology(*keys),
        KUEUE: kueue_topology(*keys),
    }
    codes = []
    for path, body in bodies.items():
        code, _ = at.api.request("POST", f"{path}?dryRun=All", body)
        codes.append(code)
    return codes


PROBES: dict[str, dict[str, str]] = named_objects("level_probes.yaml")


def test_what_we_take_everybody_takes_and_what_we_refuse_somebody_refuses(at: World) -> None:
    if not at.api.is_real:
        pytest.skip("uniqueness and the place of the hostname are rules that only a real API server knows")
    surprises = {}
    for name, probe in PROBES.items():
        pairs = list(probe.items())
        codes = dry_run_codes(at, pairs)
        is_taken_by_all = codes == [201, 201, 201]
        is_refused_by_us = bool(problems_of(pairs))
        if is_taken_by_all == is_refused_by_us:
            surprises[name] = codes
    assert surprises == {}


WITHOUT_RACK = (objects.KUEUE_BLOCK, HOSTNAME)
WITH_RACK = (objects.KUEUE_BLOCK, objects.KUEUE_RACK, HOSTNAME)


def test_one_node_without_a_label_costs_no_other_node(at: World) -> None:
    """Schedulers drop a node that lacks a level, so a level is published when every node carries it."""
    bare = Machine("x9", {objects.KUEUE_BLOCK: "b1", HOSTNAME: "x9"})
    labelled = objects.kueue_node("x1", "b1", "r1")
    at.start((labelled, bare), INFERRED)
    assert at.status_of().kueue == WITHOUT_RACK
    at.label("x9", **{objects.KUEUE_RACK: "r9"})
    at.reconcile(after=31)
    assert at.status_of().kueue == WITH_RACK
    # A node that joins before its labels takes the level from nobody either; it is named.
    at.label("x9", **{objects.KUEUE_RACK: None})
    at.reconcile(after=100_000)
    status = at.status_of()
    assert status.kueue == WITH_RACK
    _, _, covered = status.conditions["LevelsCovered"]
    assert "1 of 2 nodes lacks level 'rack'" in covered


def test_a_value_that_says_unknown_is_no_label(at: World) -> None:
    labelled = objects.kueue_node("x1", "b1", "r1")
    unknown = objects.kueue_node("x2", "b1", "no-topology")
    at.start((labelled, unknown), INFERRED)
    assert at.status_of().kueue == WITHOUT_RACK


def test_labels_that_flap_replace_nothing(at: World) -> None:
    node = objects.kueue_node("x1", "b1", "r1")
    at.start((node,), INFERRED)
    made = at.api.get(f"{KUEUE}/cluster")
    for _ in range(3):
        at.label("x1", **{objects.KUEUE_RACK: None})
        at.reconcile()
        at.pass_time(599)
        at.label("x1", **{objects.KUEUE_RACK: "r1"})
        at.reconcile()
        at.pass_time(599)
    assert at.api.get(f"{KUEUE}/cluster") == made


def test_another_project_s_condition_is_not_the_truth(at: World) -> None:
    """Grove compares names only, and Dynamo takes a missing binding for available; Toposcope looks itself."""
    asks = objects.ASKS_RACK
    at.start(objects.cluster(2), HERE, (asks,))
    reasons = {
        "True": "ClusterTopologyLevelsUnavailable",
        "False": "AllClusterTopologyLevelsAvailable",
    }
    for status, reason in reasons.items():
        reported = {
            "type": "TopologyLevelsUnavailable",
            "status": status,
            "reason": reason,
            "message": "by Grove",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        at.api.patch(f"{asks.path}/llm/status", {"status": {"conditions": [reported]}})
        at.reconcile()
        assert at.status_of().conditions == {}
    objects.label_racks(at, None)
    at.reconcile()
    at.reconcile(after=601)
    available = at.status_of().conditions["TopologyLevelsAvailable"]
    assert available == gone("rack", kept=True)
    of_workload = at.api.get(f"{asks.path}/llm")["status"]["conditions"]
    assert of_workload[0]["status"] == "False"


def test_fields_of_a_newer_grove_stay(at: World) -> None:
    """`intraNodeLevels` are proposed for the binding: what others own there is left to them."""
    at.begin(objects.cluster(2))
    name = "clustertopologybindings.grove.io"
    before = at.api.get(f"{CRDS}/{name}")["spec"]["versions"]
    anything = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    newer = []
    for version in before:
        newer.append({**version, "schema": {"openAPIV3Schema": anything}})
    at.api.patch(f"{CRDS}/{name}", {"spec": {"versions": newer}})
    try:
        at.make_topology("cluster", HERE)
        at.reconcile()
        intra = [{"domain": "numa", "type": "NUMA"}]
        at.api.patch(f"{BINDINGS}/cluster", {"spec": {"intraNodeLevels": intra}})
        at.api.patch(f"{PATH}/cluster", {"spec": {"levels": levels(*objects.TWO)}})
        at.reconcile()
        spec = at.api.get(f"{BINDINGS}/cluster")["spec"]
        assert spec["levels"] == levels(*objects.TWO)
        assert spec.get("intraNodeLevels") == intra
    finally:
        at.api.patch(f"{CRDS}/{name}", {"spec": {"versions": before}})


@pytest.mark.parametrize("where", ["grove", "kai", "kueue"])
def test_never_is_kept_where_everything_is_served(at: World, where: str) -> None:
    never = {"grove": "Never", "kai": "Never", "kueue": "Never"}
    del never[where]
    spec = {"levels": levels(*objects.THREE), "publish": never}
    at.start(objects.cluster(2), spec)
    status = at.status_of()
    keys = tuple(key for _, key in objects.THREE)
    # Grove makes KAI's Topology of every binding.
    assert status.grove == (objects.THREE if where == "grove" else None)
    assert status.kai == (None if where == "kueue" else keys)
    assert status.kueue == (keys if where == "kueue" else None)
