"""Hints of the status, and how levels follow the catalogue; each hint by itself is a row of assessed.yaml."""

from collections.abc import Mapping

from tests.support.cluster import BLOCK, History, gpu_node
from tests.support.paths import FIXTURES, SHARED
from toposcope.api.controller_config import read_config
from toposcope.api.yaml_text import load
from toposcope.controller.assess.diagnostics import MOST
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.node import NodeFacts

TIER = "fabric.topograph.run/tier-0"
BELOW_BLOCK = "rack > nvlink-domain > host"
LEAF = "network.topology.nvidia.com/leaf"


def nodes(count: int = 4, labels: Mapping[str, str | None] | None = None) -> list[NodeFacts]:
    return [gpu_node(f"n{i}", labels) for i in range(count)]


def catalogue(*keys: str, domains: str = "") -> Catalogue:
    """The built-in catalogue with these keys, `{key: K, domain: D}` in YAML, and these domains."""
    config = "apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue:\n"
    config += f"  domains: [{domains}]\n  keys: [{', '.join(keys)}]\n"
    return read_config(config.encode(), "c").catalogue


def test_there_are_never_more_than_a_handful() -> None:
    many: dict[str, str | None] = dict.fromkeys(sorted(BUILT_IN.suspects), "x")
    history = History()
    history.look(nodes(labels=many))
    shown = history.status["hints"]
    assert len(shown) == MOST
    assert {hint["reason"] for hint in shown} == {"NearMiss"}  # the most urgent


def test_renumbered_values_are_no_news() -> None:
    history = History()
    history.look([gpu_node(f"n{i}", {TIER: f"t{i // 2}", "rack": f"r{i}"}) for i in range(6)])
    before = history.status
    history.look([gpu_node(f"n{i}", {TIER: f"x{17 + i // 2:016x}", "rack": f"r{5 - i}"}) for i in range(6)])
    assert history.status == before


def test_labels_of_the_gpu_operator_are_no_near_misses() -> None:
    labels = {f"nvidia.com/{key}": "1" for key in load((FIXTURES / "gpu_operator_labels.yaml").read_bytes())}
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
