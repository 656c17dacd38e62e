"""What can go wrong between Toposcope and the schedulers that read what it publishes; each hazard with its handling."""

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

HERE = {"levels": levels(*objects.THREE), "publish": {"kueue": "Never"}}
INFERRED = {"publish": {"kai": "Never", "grove": "Never"}}


def test_our_short_name_is_nobody_else_s(at: World) -> None:
    served = {crd["metadata"]["name"]: crd_conditions(crd) for crd in at.api.get(CRDS)["items"]}
    assert {"clustertopologies.gpu.topology", "clustertopologybindings.grove.io", "topologies.kueue.x-k8s.io"} < set(
        served
    )
    assert {states["NamesAccepted"] for states in served.values()} == {"True"}


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
    assert (status, reason) == ("False", "Conflict")
    assert "Grove's operator does not start while a binding has that name" in text


def test_a_kai_topology_of_ours_is_there_all_the_time_when_grove_comes(at: World) -> None:
    at.start(objects.cluster(2), {**HERE, "publish": {"kueue": "Never", "grove": "Never"}})
    before = at.api.get(f"{KAI}/cluster")
    at.api.patch(f"{PATH}/cluster", {"spec": {"publish": {"grove": "Auto"}}})
    at.reconcile()  # in which Grove starts
    assert at.api.get(f"{KAI}/cluster") == before
    status = at.status_of()
    assert (status.grove, status.conditions) == (objects.THREE, {})
    at.restart()
    at.reconcile()
    assert at.api.get(f"{KAI}/cluster") == before


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(f"l{number}", f"example.com/l{number}") for number in range(17)], id="17-levels"),
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
    if at.make_topology("cluster", {"levels": levels(*pairs), "publish": {"kueue": "Never"}})[0] == 201:
        at.reconcile()
        assert at.status_of().conditions["Published"][1] == "InvalidSpec"
    assert at.api.get(BINDINGS)["items"] == []
    assert level_problems([Level(*pair) for pair in pairs])


PROBES: dict[str, dict[str, str]] = named_objects("level_probes.yaml")


def test_what_we_take_everybody_takes_and_what_we_refuse_somebody_refuses(at: World) -> None:
    if not at.api.is_real:
        pytest.skip("uniqueness and the place of the hostname are rules that only a real API server knows")
    surprises = {}
    for name, probe in PROBES.items():
        pairs, keys = [*probe.items()], [*probe.values()]
        bodies = ((BINDINGS, binding(*pairs)), (KAI, kai_topology(*keys)), (KUEUE, kueue_topology(*keys)))
        answers = [at.api.request("POST", f"{path}?dryRun=All", body)[0] for path, body in bodies]
        taken = all(code == 201 for code in answers)
        if taken == bool(level_problems([Level(*pair) for pair in pairs])):
            surprises[name] = answers
    assert surprises == {}


def test_one_node_without_a_label_costs_no_other_node(at: World) -> None:
    """Schedulers drop a node that lacks a level, so a level is published when every node carries it."""
    bare = Machine("x9", {objects.KUEUE_BLOCK: "b1", HOSTNAME: "x9"})
    at.start((objects.kueue_node("x1", "b1", "r1"), bare), INFERRED)
    assert at.status_of().kueue == (objects.KUEUE_BLOCK, HOSTNAME)
    at.label("x9", **{objects.KUEUE_RACK: "r9"})
    at.reconcile(after=31)
    assert at.status_of().kueue == (objects.KUEUE_BLOCK, objects.KUEUE_RACK, HOSTNAME)
    # A node that joins before its labels takes the level from nobody either; it is named.
    at.label("x9", **{objects.KUEUE_RACK: None})
    at.reconcile(after=100_000)
    status = at.status_of()
    assert status.kueue == (objects.KUEUE_BLOCK, objects.KUEUE_RACK, HOSTNAME)
    assert "1 of 2 nodes lacks level 'rack'" in status.conditions["LevelsCovered"][2]


def test_a_value_that_says_unknown_is_no_label(at: World) -> None:
    nodes = objects.kueue_node("x1", "b1", "r1"), objects.kueue_node("x2", "b1", "no-topology")
    at.start(nodes, INFERRED)
    assert at.status_of().kueue == (objects.KUEUE_BLOCK, HOSTNAME)


def test_labels_that_flap_replace_nothing(at: World) -> None:
    at.start((objects.kueue_node("x1", "b1", "r1"),), INFERRED)
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
    reports = (("True", "ClusterTopologyLevelsUnavailable"), ("False", "AllClusterTopologyLevelsAvailable"))
    for status, reason in reports:
        reported = {"type": "TopologyLevelsUnavailable", "status": status, "reason": reason, "message": "by Grove"}
        conditions = [{**reported, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        at.api.patch(f"{asks.path}/llm/status", {"status": {"conditions": conditions}})
        at.reconcile()
        assert at.status_of().conditions == {}
    objects.label_racks(at, None)
    at.reconcile()
    at.reconcile(after=601)
    assert at.status_of().conditions["TopologyLevelsAvailable"] == gone("rack", kept=True)
    assert at.api.get(f"{asks.path}/llm")["status"]["conditions"][0]["status"] == "False"


def test_fields_of_a_newer_grove_stay(at: World) -> None:
    """`intraNodeLevels` are proposed for the binding: what others own there is left to them."""
    at.begin(objects.cluster(2))
    name = "clustertopologybindings.grove.io"
    before = at.api.get(f"{CRDS}/{name}")["spec"]["versions"]
    newer = [
        {**version, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
        for version in before
    ]
    at.api.patch(f"{CRDS}/{name}", {"spec": {"versions": newer}})
    try:
        at.make_topology("cluster", HERE)
        at.reconcile()
        intra = [{"domain": "numa", "type": "NUMA"}]
        at.api.patch(f"{BINDINGS}/cluster", {"spec": {"intraNodeLevels": intra}})
        at.api.patch(f"{PATH}/cluster", {"spec": {"levels": levels(*objects.TWO)}})
        at.reconcile()
        spec = at.api.get(f"{BINDINGS}/cluster")["spec"]
        assert (spec["levels"], spec.get("intraNodeLevels")) == (levels(*objects.TWO), intra)
    finally:
        at.api.patch(f"{CRDS}/{name}", {"spec": {"versions": before}})


@pytest.mark.parametrize("where", ["grove", "kai", "kueue"])
def test_never_is_kept_where_everything_is_served(at: World, where: str) -> None:
    never = {target: "Never" for target in ("grove", "kai", "kueue") if target != where}
    at.start(objects.cluster(2), {"levels": levels(*objects.THREE), "publish": never})
    status = at.status_of()
    keys = tuple(key for _, key in objects.THREE)
    # Grove makes KAI's Topology of every binding.
    expected = {"grove": (objects.THREE, keys, None), "kai": (None, keys, None), "kueue": (None, None, keys)}
    assert (status.grove, status.kai, status.kueue) == expected[where]
