"""What belongs on a node by the plan: decided from the plan and the node's own labels, the same for all who ask."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE, gpu_node
from tests.support.publishing import levels
from toposcope.api.label_keys import GPUS, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.api.requirement import Requirement
from toposcope.hierarchy.node import NodeFacts
from toposcope.integrations.node_plan import (
    LARGEST,
    LONGEST_VALUE,
    NodePlan,
    PlannedKeys,
    PlannedTopology,
    decode,
    encode,
    fitting,
    unique_value,
)
from toposcope.integrations.slurm.names import NamedLevel, SlurmNames, Style

LEVELS = levels(ZONE, BLOCK, RACK)
RACKS = "gpu.topology/unique-rack"
BLOCKS = "gpu.topology/unique-block"
EVERY = (Requirement(GPUS, "Exists"),)
SLURM = SlurmNames((NamedLevel("zone", ZONE), NamedLevel("rack", RACK, Style.PATH)), (), NamedLevel("rack", RACK))


def asking(name: str = "cluster", **fields: Any) -> PlannedTopology:
    return PlannedTopology(name, **{"selector": EVERY, "levels": LEVELS, "unique": ("rack",), **fields})


def in_block(block: str) -> tuple[Requirement, ...]:
    return (Requirement(BLOCK, "In", frozenset({block})),)


def wanted(node: NodeFacts, *topologies: PlannedTopology, complete: bool = True) -> PlannedKeys:
    """By a plan that was written and read again."""
    plan = NodePlan(topologies, frozenset({"no-topology"}), complete)
    return decode(encode(plan)).wanted(node.name, node)


@pytest.mark.parametrize(
    ("path", "value"), [pytest.param(("z", "b1", "r1"), "z.b1.r1", id="three"), pytest.param(("r1",), "r1", id="one")]
)
def test_path_is_joined_by_dots(path: tuple[str, ...], value: str) -> None:
    assert unique_value(path) == value


@pytest.mark.parametrize(
    ("path", "beginning"),
    [
        pytest.param(("a.b", "c"), "c-", id="dot-above"),
        pytest.param(("a", "b.c"), "b-c-", id="dot-below"),
        pytest.param(("", "r"), "r-", id="nothing-above"),
        pytest.param(("x" * 63, "y" * 63), "y" * 50 + "-", id="too-long"),
        pytest.param(("z" * 60, "_.-"), "domain-", id="no-letters"),
    ],
)
def test_path_that_cannot_be_joined_ends_in_a_hash(path: tuple[str, ...], beginning: str) -> None:
    value = unique_value(path)
    assert value.startswith(beginning)
    assert len(value) == len(beginning) + 12
    assert len(value) <= LONGEST_VALUE


@pytest.mark.regression
def test_paths_that_read_alike_have_values_of_their_own() -> None:
    paths = [("a.b", "c"), ("a", "b.c"), ("a", "b", "c"), ("", "a", "c"), ("a", "", "c"), ("a" * 70,), ("a" * 71,)]
    assert len({unique_value(path) for path in paths}) == len(paths)


def test_selected_node_gets_the_values_down_to_the_level() -> None:
    node = gpu_node("n1", {"block": "b2"})
    assert wanted(node, asking(unique=("rack", "block"))).labels == {RACKS: "z.b2.r", BLOCKS: "z.b2"}


@pytest.mark.parametrize("lost", [None, "no-topology"], ids=["no-label", "placeholder"])
def test_node_without_a_level_on_the_way_gets_no_label(lost: str | None) -> None:
    assert wanted(gpu_node("n1", {"block": lost}), asking()) == PlannedKeys({})


def test_node_outside_the_selector_gets_nothing() -> None:
    assert wanted(gpu_node("n1", {GPUS: None}), asking()) == PlannedKeys({})


def test_level_that_is_not_in_effect_keeps_its_label() -> None:
    keys = wanted(gpu_node("n1"), asking(unique=("tray", "block")))
    assert keys.labels == {BLOCKS: "z.b"}
    assert keys.kept == {"gpu.topology/unique-tray"}


def test_older_of_two_topologies_decides() -> None:
    blocks_and_racks = asking(levels=LEVELS[1:])
    first_block = asking("part", selector=in_block("b1"))
    in_first = gpu_node("n1", {"block": "b1"})
    in_second = gpu_node("n2", {"block": "b2"})
    assert wanted(in_first, first_block, blocks_and_racks).labels == {RACKS: "z.b1.r"}
    assert wanted(in_second, first_block, blocks_and_racks).labels == {RACKS: "b2.r"}
    assert wanted(in_first, blocks_and_racks, first_block).labels == {RACKS: "b1.r"}


def test_older_topology_decides_without_knowing_the_level() -> None:
    old = asking("old", levels=LEVELS[:2])
    young = asking("young")
    keys = wanted(gpu_node("n1"), old, young)
    assert keys.labels == {}
    assert keys.kept == {RACKS}


def test_incomplete_plan_removes_nothing() -> None:
    keys = wanted(gpu_node("n1"), complete=False)
    assert not keys.complete
    assert keys.keeps_annotation


def test_annotation_for_slinky_names_switch_and_block() -> None:
    keys = wanted(gpu_node("n1"), asking(unique=(), annotates=True, slurm=SLURM))
    assert keys.annotation == "cluster-tree:z.r,cluster-block:r"


@pytest.mark.parametrize(
    ("labels", "annotation"),
    [({"zone": None}, "cluster-block:r"), ({"rack": "no-topology"}, None), ({"rack": "n1"}, "cluster-tree:rack-z.n1")],
    ids=["not-in-the-tree", "in-neither", "alone-in-a-rack-of-its-name"],
)
def test_node_without_switch_or_block_is_named_by_the_other(labels: dict[str, str], annotation: str | None) -> None:
    assert wanted(gpu_node("n1", labels), asking(unique=(), annotates=True, slurm=SLURM)).annotation == annotation


def test_annotation_stays_while_names_are_not_known() -> None:
    keys = wanted(gpu_node("n1"), asking(unique=(), annotates=True))
    assert keys.annotation is None
    assert keys.keeps_annotation


@pytest.mark.parametrize("length", [900, 1100])
def test_annotation_too_long_for_the_policy_is_not_written(length: int) -> None:
    topology = asking("t" * (length // 2), unique=(), annotates=True, slurm=SLURM)
    keys = wanted(gpu_node("n1"), topology)
    assert bool(keys.annotation) is (length == 900)


# A level that is made of what agents write because of it would feed itself, with a write each turn for ever.


@pytest.mark.regression
def test_level_made_of_unique_values_is_ignored() -> None:
    own = (LEVELS[0], Level("block", RACKS), LEVELS[2])
    node = gpu_node("n1", {RACKS: "fed"})
    assert wanted(node, asking(levels=own)).labels == {RACKS: "z.r"}
    assert wanted(node, asking(levels=own, unique=("block",))).kept == frozenset({BLOCKS})


@pytest.mark.parametrize("operator", ["Exists", "DoesNotExist", "In", "NotIn"])
def test_node_selected_by_unique_values_gets_nothing(operator: str) -> None:
    own = asking(selector=(Requirement(RACKS, operator, frozenset({"z.b.r"})),))
    assert wanted(gpu_node("n1", {RACKS: "z.b.r"}), own) == wanted(gpu_node("n1"), own) == PlannedKeys({})


def test_slurm_names_made_of_unique_values_are_ignored() -> None:
    own = SlurmNames((NamedLevel("rack", RACKS),), (), NamedLevel("rack", RACKS))
    assert wanted(gpu_node("n1", {RACKS: "x"}), asking(unique=(), annotates=True, slurm=own)).annotation is None


@pytest.mark.regression
@pytest.mark.parametrize("seed", range(40))
def test_labels_of_a_node_settle_at_once(seed: int) -> None:
    """Whatever is on the Node, and whatever levels and selectors are made of."""
    rng = random.Random(seed)
    topologies = [random_topology(rng, f"t{number}") for number in range(3)]
    labels: dict[str, str | None] = {key: rng.choice(["a", "b.c", None]) for key in KEYS}
    carried = []
    for _ in range(3):
        labels = after_update(labels, topologies)
        carried.append({key: value for key, value in labels.items() if value})
    assert carried[0] == carried[1] == carried[2]


KEYS = [ZONE, BLOCK, RACK, RACKS, BLOCKS, NVLINK_DOMAIN]


def random_topology(rng: random.Random, name: str) -> PlannedTopology:
    selector = []
    for _ in range(2):
        selector.append(Requirement(rng.choice(KEYS), rng.choice(["Exists", "DoesNotExist"])))
    levels = []
    for domain in ("zone", "block", "rack"):
        levels.append(Level(domain, rng.choice(KEYS)))
    unique = rng.sample(["block", "rack", "zone"], 2)
    return asking(name, selector=tuple(selector), levels=tuple(levels), unique=tuple(unique))


def after_update(labels: dict[str, str | None], topologies: list[PlannedTopology]) -> dict[str, str | None]:
    """The labels of a node once its agent has written what belongs on it."""
    keys = wanted(gpu_node("n1", labels), *topologies)
    updated = dict(labels)
    for key in (RACKS, BLOCKS, "gpu.topology/unique-zone"):
        kept = labels.get(key) if key in keys.kept else None
        updated[key] = keys.labels.get(key) or kept
    return updated


# The text.


@pytest.mark.parametrize("seed", range(20))
def test_plan_is_read_back_as_it_was_written(seed: int) -> None:
    rng = random.Random(seed)
    topologies = tuple(
        asking(
            f"t{number}",
            selector=rng.choice([(), EVERY, in_block("b")]),
            levels=LEVELS[: rng.randint(0, 3)],
            annotates=rng.random() < 0.5,
            slurm=rng.choice([None, SLURM, replace(SLURM, block=None), SlurmNames(())]),
        )
        for number in range(rng.randint(0, 4))
    )
    plan = NodePlan(topologies, frozenset(rng.sample(["-", "none", "n/a"], 2)), rng.random() < 0.5)
    assert decode(encode(plan)) == plan
    assert encode(decode(encode(plan))) == encode(plan)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        "{}",
        '{"version":2,"placeholders":[],"topologies":[]}',
        '{"version":1,"placeholders":[]}',
        '{"version":1,"placeholders":[7],"topologies":[]}',
        '{"version":1,"placeholders":[],"topologies":[{}]}',
        '{"version":1,"placeholders":[],"topologies":[{"name":"a","selector":[],"levels":[{}]}]}',
        '{"version":1,"placeholders":[],"topologies":[{"name":"a","selector":7,"levels":[]}]}',
        "[" * 100_000,
        '{"version":1,"placeholders":["%s"],"topologies":[]}' % ("x" * LARGEST),
        '"\\ud800"',
    ],
    ids=lambda text: text[:30],
)
def test_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(text)


def test_style_of_a_later_version_is_refused() -> None:
    text = encode(NodePlan((asking(annotates=True, slurm=SLURM),))).replace('"path"', '"colour"')
    with pytest.raises(ValueError, match="colour"):
        decode(text)


def test_fields_of_a_later_version_are_ignored() -> None:
    document = json.loads(encode(NodePlan((asking(),))))
    document["later"] = document["topologies"][0]["later"] = 1
    assert decode(json.dumps(document)) == NodePlan((asking(),))


def test_oldest_topologies_are_kept_where_not_all_have_room() -> None:
    plan = NodePlan(tuple(asking(f"t{number:03}") for number in range(100)))
    text = encode(plan)
    assert fitting(plan, len(text)) == plan
    less = fitting(plan, len(text) - 1)
    kept = len(less.topologies)
    assert 90 <= kept < 100
    assert less.topologies == plan.topologies[:kept]
    assert not less.complete
    assert len(encode(less)) < len(text)
    assert fitting(plan, 100).topologies == ()


def test_topologies_that_ask_for_keys_are_kept_before_older_ones() -> None:
    plain = [PlannedTopology(f"p{number:03}", EVERY, LEVELS) for number in range(50)]
    keyed = asking("keyed")
    plan = NodePlan((*plain, keyed))
    less = fitting(plan, len(encode(plan)) - 1)
    names = [topology.name for topology in less.topologies]
    assert names[0] == "p000"
    assert names[-1] == "keyed"
    assert 40 <= len(names) < 51
    assert less.complete
    assert not less.has_all_paths
    assert decode(encode(less)) == less


def test_labels_of_topologies_that_ask_for_nothing_decide_no_keys() -> None:
    plain = PlannedTopology("plain", EVERY, LEVELS)
    assert NodePlan((plain,)).input_keys() == frozenset()
    node = gpu_node("n1", {"block": "b2"})
    assert wanted(node, plain) == PlannedKeys({}, keeps_annotation=False)
