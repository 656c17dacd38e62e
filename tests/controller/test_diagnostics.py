"""Hints of the status, why a label is not used as a level: each case of the catalogue's page by name."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.cluster import BLOCK, RACK, History, gpu_node
from tests.support.paths import SHARED
from toposcope.api.controller_config import read_config
from toposcope.controller.assess.diagnostics import MOST
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.node import NodeFacts

CLIQUE = "nvidia.com/gpu.clique"
NEAR_CLIQUE = "nvidia.com/gpu-clique"
TIER = "fabric.topograph.run/tier-0"
BELOW_BLOCK = "rack > nvlink-domain > host"
LEAF = "network.topology.nvidia.com/leaf"
GPU_OPERATOR_KEYS = """
    cuda.driver-version.full cuda.driver-version.major cuda.driver-version.minor cuda.driver-version.revision
    cuda.driver.major cuda.driver.minor cuda.driver.rev cuda.runtime-version.full cuda.runtime-version.major
    cuda.runtime-version.minor cuda.runtime.major cuda.runtime.minor gfd.timestamp gpu-driver-upgrade-state
    gpu.compute.major gpu.compute.minor gpu.count gpu.deploy.container-toolkit gpu.deploy.dcgm
    gpu.deploy.dcgm-exporter gpu.deploy.device-plugin gpu.deploy.driver gpu.deploy.gpu-feature-discovery
    gpu.deploy.mig-manager
    gpu.deploy.node-status-exporter gpu.deploy.operator-validator gpu.engines.decoder gpu.engines.jpeg gpu.family
    gpu.machine gpu.memory gpu.mode gpu.present gpu.product gpu.replicas gpu.sharing-strategy mig-3g.21gb.count
    mig-3g.21gb.engines.copy mig-3g.21gb.engines.decoder mig-3g.21gb.memory mig-3g.21gb.multiprocessors
    mig-3g.21gb.slices.ci mig-3g.21gb.slices.gi mig-7g.40gb.count mig-7g.40gb.engines.copy
    mig-7g.40gb.engines.decoder mig-7g.40gb.engines.encoder mig-7g.40gb.engines.jpeg mig-7g.40gb.engines.ofa
    mig-7g.40gb.memory mig-7g.40gb.multiprocessors mig-7g.40gb.product mig-7g.40gb.replicas mig.capable mig.config
    mig.config.state mig.strategy mps.capable vgpu.present
"""
"""What GPU Feature Discovery and the operator write on nodes, without `nvidia.com/`."""


def hints(history: History) -> dict[tuple[str, str], dict[str, Any]]:
    return {(hint["reason"], hint["key"]): hint for hint in history.status.get("hints", ())}


def nodes(count: int = 4, labels: Mapping[str, str | None] | None = None) -> list[NodeFacts]:
    return [gpu_node(f"n{i}", labels) for i in range(count)]


def looked(seen: list[NodeFacts], **spec: Any) -> dict[tuple[str, str], dict[str, Any]]:
    history = History(**spec)
    history.look(seen)
    return hints(history)


def catalogue(*keys: str, domains: str = "") -> Catalogue:
    """The built-in catalogue with these keys, `{key: K, domain: D}` in YAML, and these domains."""
    config = "apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue:\n"
    config += f"  domains: [{domains}]\n  keys: [{', '.join(keys)}]\n"
    return read_config(config.encode(), "c").catalogue


def test_a_sound_cluster_has_no_hints() -> None:
    history = History()
    history.look(nodes())
    assert "hints" not in history.status


def test_a_near_miss_is_reported_with_the_right_key() -> None:
    found = looked([*nodes(3, labels={NEAR_CLIQUE: "c"}), gpu_node("n9")])
    assert found == {
        ("NearMiss", NEAR_CLIQUE): {
            "key": NEAR_CLIQUE,
            "reason": "NearMiss",
            "nodes": 3,
            "message": "nvidia.com/gpu-clique is on 3 of 4 nodes and is not a level: nothing writes it; "
            "the key is nvidia.com/gpu.clique (on 0)",
        }
    }


def test_a_near_miss_in_the_spec_is_reported_with_its_place() -> None:
    levels = [{"domain": "rack", "key": RACK}, {"domain": "nvlink-domain", "key": NEAR_CLIQUE}]
    message = looked(nodes(labels={CLIQUE: "c"}), levels=levels)["NearMiss", NEAR_CLIQUE]["message"]
    assert message.startswith("spec.levels[1].key: nvidia.com/gpu-clique is on 0 of 4 nodes")
    assert message.endswith("the key is nvidia.com/gpu.clique (on 4)")


def test_another_spelling_in_the_spec_is_reported_too() -> None:
    assert looked(nodes(), levels=[{"domain": "rack", "key": "cloud.google.com/subblock"}]) == {}
    found = looked(nodes(), levels=[{"domain": "rack", "key": "cloud.google.com/GCE_topology.subblock"}])
    assert f"the key is {RACK} (on 4)" in found["NearMiss", "cloud.google.com/GCE_topology.subblock"]["message"]


def test_a_key_that_all_nodes_carry_is_no_slip_in_a_spec() -> None:
    levels = [{"domain": "rack", "key": "kubernetes.io/rack"}]
    assert looked(nodes(labels={"kubernetes.io/rack": "r"}), levels=levels) == {}


def test_a_partly_covered_level_says_how_many_lack_it_and_which() -> None:
    found = looked([*nodes(14), gpu_node("x1", {"rack": None}), gpu_node("x2", {"rack": None})])
    assert found["PartlyCovered", RACK] == {
        "key": RACK,
        "domain": "rack",
        "reason": "PartlyCovered",
        "nodes": 14,
        "message": f"level 'rack' ({RACK}) is on 14 of 16 nodes, so it is not published: "
        "schedulers would leave out the others; lacking: x1, x2",
    }


def test_a_value_that_means_unknown_is_no_place() -> None:
    """Topograph writes no-topology: taken as a leaf it would make neighbours of strangers."""
    history = History()
    found = history.look([*nodes(3, labels={TIER: "l"}), gpu_node("n9", {TIER: "no-topology"})])
    assert "leaf" not in found.effective.path
    message = hints(history)["PartlyCovered", TIER]["message"]
    assert "is on 3 of 4 nodes" in message
    assert "lacking: n9 (1 with the value 'no-topology', which names no place)" in message


def test_a_placeholder_of_a_level_in_effect_is_named_in_hint_and_condition() -> None:
    history = History()
    history.look([*nodes(39), gpu_node("n99", {"rack": "no-topology"})])
    words = "(1 with the value 'no-topology', which names no place)"
    assert f"1 of 40 nodes lacks level 'rack' ({RACK}): n99 {words}" in history.condition("LevelsCovered")["message"]
    hint = hints(history)["PlaceholderValue", RACK]
    assert (hint["nodes"], hint["domain"]) == (39, "rack")
    assert f"level 'rack' says unknown {words}: n99" in hint["message"]


@pytest.mark.parametrize("clique", ["0", "1", "32766"])
def test_an_all_zero_cluster_is_no_nvlink_domain(clique: str) -> None:
    """HGX H100 reports a completed fabric with an all-zero cluster UUID."""
    zero = f"00000000-0000-0000-0000-000000000000.{clique}"
    zeros = [gpu_node(f"n{i}", {"gpu.topology/nvlink-domain": None, CLIQUE: zero}) for i in range(3)]
    history = History()
    assert "nvlink-domain" not in history.look(zeros).effective.path
    assert hints(history)["PartlyCovered", CLIQUE]["nodes"] == 0


def test_a_retired_key_is_reported_with_its_successor_even_beside_it() -> None:
    stale = [gpu_node(f"n{i}", {TIER: f"t{i // 2}", LEAF: f"l{i // 2}"}) for i in range(4)]
    found = looked(stale)
    assert found["RetiredKey", LEAF]["message"] == (
        f"{LEAF} is on 4 of 4 nodes and is retired: Topograph 0.3 to 0.5 wrote it, and what came later "
        f"leaves it behind; the key now is {TIER} (on 4)"
    )
    assert "domain" not in found["RetiredKey", LEAF]


def test_a_retired_key_that_is_all_there_is_makes_the_level_and_says_so() -> None:
    history = History()
    assert "leaf" in history.look(nodes(labels={LEAF: "l"})).effective.path
    hint = hints(history)["RetiredKey", LEAF]
    assert hint["domain"] == "leaf"
    assert hint["message"].endswith("level 'leaf' is taken from it as long as it is there")


def test_two_keys_of_one_level_that_group_nodes_differently_are_reported() -> None:
    same = [gpu_node(f"n{i}", {TIER: f"t{i // 2}", LEAF: f"l{i // 2}"}) for i in range(4)]
    assert ("KeysDisagree", LEAF) not in looked(same)
    other = [gpu_node(f"n{i}", {TIER: f"t{i // 2}", LEAF: "l"}) for i in range(4)]
    hint = looked(other)["KeysDisagree", LEAF]
    assert hint["domain"] == "leaf"
    assert f"{TIER} is used" in hint["message"]
    assert "list it in spec.levels" in hint["message"]


@pytest.mark.parametrize(
    ("leaves", "disagree"), [(("n0", "n1"), False), (("l0", "l1"), False), (("l", "l"), True), (("n0", "l"), False)]
)
def test_two_keys_may_disagree_about_nodes_that_stand_alone(leaves: tuple[str, str], disagree: bool) -> None:
    alone = [gpu_node(f"n{i}", {TIER: f"n{i}", LEAF: leaf}) for i, leaf in enumerate(leaves)]
    assert (("KeysDisagree", LEAF) in looked(alone)) is disagree


def test_a_key_that_is_too_long_for_grove_says_so() -> None:
    long = "rack." + "x" * 40 + ".example.com/position"
    history = History()
    history.catalogue = catalogue(f"{{key: {long}, domain: rack}}")
    assert "rack" not in history.look(nodes(labels={"rack": None, long: "r"})).effective.path
    message = hints(history)["NotAccepted", long]["message"]
    assert message.startswith(f"{long} is on 4 of 4 nodes, but it cannot carry the level 'rack'")
    assert message.endswith(f"has {len(long)} characters with its prefix; Grove takes 63")


def test_there_are_never_more_than_a_handful() -> None:
    many: dict[str, str | None] = dict.fromkeys(sorted(BUILT_IN.suspects), "x")
    history = History()
    history.look(nodes(labels=many))
    shown = history.status["hints"]
    assert len(shown) == MOST
    assert {hint["reason"] for hint in shown} == {"NearMiss"}  # the most urgent


@pytest.mark.parametrize(
    ("places", "coverage", "messages"),
    [
        pytest.param(
            [(f"zone-{i // 28}", f"block-{i // 20}", f"rack-{i // 7}") for i in range(30)],
            [2, 3, 6, 30, 30],
            [
                "block 'block-1' lies under zone 'zone-0' and 'zone-1'",
                "rack 'rack-2' lies under block 'block-0' and 'block-1'",
                "a reused name, a rack that spans several block domains, or a wrong cable",
            ],
            id="racks-that-span-blocks-as-in-the-e2e-cluster-of-grove",
        ),
        pytest.param(
            # Kueue's racks r1 and r2 in each of two blocks; KAI's racks across zones look the same.
            [("z", f"b{block}", f"r{rack}") for block in (1, 2) for rack in (1, 2)],
            [1, 2, 4, 4, 4],
            [
                "rack 'r1' lies under block 'b1' and 'b2' (2 of 2 values do so)",
                "where the two levels cut across each other, give each a ClusterTopology of its own",
            ],
            id="names-reused-in-each-block",
        ),
        pytest.param(
            [("z", f"b{i // 2}", f"r{i // 4}") for i in range(8)],
            [1, 4, 4, 8, 8],
            ["each block lies within one rack: list them in spec.levels the other way round"],
            id="a-broad-level-listed-below-a-narrow-one",
        ),
    ],
)
def test_levels_that_do_not_nest_keep_their_order_and_are_reported(
    places: list[tuple[str, str, str]], coverage: list[int], messages: list[str]
) -> None:
    history = History()
    found = history.look(
        [gpu_node(f"n{i:02}", {"zone": z, "block": b, "rack": r}) for i, (z, b, r) in enumerate(places)]
    )
    assert found.effective.path == f"zone > block > {BELOW_BLOCK}"
    assert [level.domains for level in found.coverage] == coverage
    for message in messages:
        assert message in history.condition("HierarchyConsistent")["message"]


def test_renumbered_values_are_no_news() -> None:
    history = History()
    history.look([gpu_node(f"n{i}", {TIER: f"t{i // 2}", "rack": f"r{i}"}) for i in range(6)])
    before = history.status
    history.look([gpu_node(f"n{i}", {TIER: f"x{17 + i // 2:016x}", "rack": f"r{5 - i}"}) for i in range(6)])
    assert history.status == before


def test_labels_of_the_gpu_operator_are_no_near_misses() -> None:
    labels = {f"nvidia.com/{key}": "1" for key in GPU_OPERATOR_KEYS.split()}
    for capture in (SHARED / "captures" / "labels").glob("*.txt"):
        lines = (line.partition("=") for line in capture.read_text().splitlines() if not line.startswith("#"))
        labels |= {key: value for key, _, value in lines if key}
    tracked = {key: value for key, value in labels.items() if key in BUILT_IN.tracked}
    history = History()
    assert history.look([gpu_node("n1", tracked)]).effective.path == f"zone > block > {BELOW_BLOCK}"
    assert history.status.get("hints") is None


def test_what_an_admin_prefers_takes_a_level_over_and_what_the_catalogue_prefers_does_not() -> None:
    history = History()
    history.look(nodes(labels={LEAF: "l"}))
    both = nodes(labels={LEAF: "l", TIER: "t"})
    found = history.look(both)
    assert {level.domain: level.key for level in found.effective.levels}["leaf"] == LEAF
    history.catalogue = catalogue(f"{{key: {TIER}, domain: leaf}}")
    found = history.look(both)
    assert {level.domain: level.key for level in found.effective.levels}["leaf"] == TIER
    # And stays, should some nodes lack it later.
    found = history.look([*both, gpu_node("n9", {LEAF: "l"})])
    assert {level.domain: level.key for level in found.effective.levels}["leaf"] == TIER


def test_a_domain_that_the_configuration_no_longer_knows_goes_after_the_grace_period() -> None:
    history = History()
    history.catalogue = catalogue(domains="{name: row, after: block, keys: [example.com/row]}")
    rows = nodes(labels={"example.com/row": "r"})
    assert history.look(rows).effective.path == f"zone > block > row > {BELOW_BLOCK}"
    history.catalogue = BUILT_IN
    for seconds in (0, 600):
        assert history.look(rows, after=seconds).effective.path == f"zone > block > row > {BELOW_BLOCK}"
    assert history.look(rows, after=1).effective.path == f"zone > block > {BELOW_BLOCK}"


def test_levels_of_a_spec_that_was_taken_back_do_not_linger() -> None:
    history = History(levels=[{"domain": "row", "key": "example.com/row"}, {"domain": "block", "key": BLOCK}])
    history.look(nodes(labels={"example.com/row": "r"}))
    history.spec = {}
    history.status["observedGeneration"] = 2  # the spec that the status is about was another one
    path = history.look(nodes(labels={"example.com/row": "r"})).effective.path
    assert path == f"zone > block > {BELOW_BLOCK}"
