"""The configuration file: what it adds, and what is said of what it cannot."""

import pytest
from tests.support.tables import each_case
from toposcope.api.levels import INSIDE_A_NODE, Level
from toposcope.hierarchy.catalogue import BUILT_IN, NEAR_MISS, NOT_ACCEPTED
from toposcope.hierarchy.controller_config import Config, UnreadableError, read_config

HEAD = "apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue:\n"
LONG = "example.com/" + "k" * 60


def read(body: str) -> Config:
    return read_config((HEAD + body).encode(), "config.yaml")


def test_own_keys_come_first_or_last_in_their_domain() -> None:
    found = read(
        "  keys:\n"
        "  - {key: example.com/rack, domain: rack}\n"
        "  - {key: example.com/rack2, domain: rack, position: Preferred}\n"
        "  - {key: example.com/rack3, domain: rack, position: Fallback}\n"
    )
    assert found.problems == ()
    assert found.catalogue.keys["rack"] == (
        "example.com/rack",
        "example.com/rack2",
        *BUILT_IN.keys["rack"],
        "example.com/rack3",
    )
    assert found.catalogue.chosen == {"example.com/rack", "example.com/rack2"}
    assert {"example.com/rack", "example.com/rack3"} <= found.catalogue.tracked


def test_own_domains_have_a_place_in_the_order() -> None:
    found = read(
        "  domains:\n"
        "  - {name: row, after: block, keys: [example.com/row]}\n"
        "  - {name: aisle, before: row, keys: [example.com/aisle, example.com/gang]}\n"
        "  keys:\n"
        "  - {key: example.com/zeile, domain: row, position: Fallback}\n"
    )
    assert found.problems == ()
    domains = found.catalogue.domains
    at = domains.index("block")
    assert domains[at : at + 4] == ("block", "aisle", "row", "leaf-group")
    assert domains[-1] == "host"
    assert found.catalogue.keys["row"] == ("example.com/row", "example.com/zeile")
    full = {"example.com/row", "example.com/gang", "kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert [level.domain for level in found.catalogue.infer(dict.fromkeys(full, 1))] == ["zone", "aisle", "row", "host"]


def test_a_key_moves_to_the_domain_that_the_admin_gives_it() -> None:
    found = read("  keys:\n  - {key: topology.k8s.aws/network-node-layer-3, domain: rack}\n")
    assert "topology.k8s.aws/network-node-layer-3" not in found.catalogue.keys["leaf"]
    assert found.catalogue.infer({"topology.k8s.aws/network-node-layer-3": 1}) == (
        Level("rack", "topology.k8s.aws/network-node-layer-3"),
    )


def test_a_near_miss_that_an_admin_writes_himself_is_a_level() -> None:
    found = read("  keys:\n  - {key: topology.kubernetes.io/rack, domain: rack}\n")
    assert found.catalogue.advise("topology.kubernetes.io/rack") is None
    assert "topology.kubernetes.io/rack" in found.catalogue.level_keys


def test_placeholders_and_near_misses_are_added() -> None:
    found = read(
        "  placeholders: [unknown, 0]\n"
        "  nearMisses:\n"
        "  - {key: example.com/rak, instead: example.com/rack, why: a slip of 2024}\n"
        "  - key: example.com/old\n"
    )
    assert found.problems == ()
    assert {"unknown", "0", "no-topology"} <= found.catalogue.placeholders
    advice = found.catalogue.advise("example.com/rak")
    assert advice is not None
    assert (advice.reason, advice.instead, advice.why) == (NEAR_MISS, "example.com/rack", "a slip of 2024")
    assert found.catalogue.advise("example.com/old") is not None


@each_case("tables/api.yaml")
def test_a_bad_entry_is_told_with_its_line_and_the_rest_is_in_force(body: str, said: str) -> None:
    good = "  nearMisses:\n" if "nearMisses" not in body else ""
    found = read(body + good + "  - {key: example.com/rak, instead: example.com/rack}\n")
    assert len(found.problems) == 1
    assert found.problems[0].startswith("config.yaml:")
    assert said in found.problems[0]
    assert found.catalogue.advise("example.com/rak") is not None
    assert found.catalogue.keys == BUILT_IN.keys


def test_one_bad_key_of_a_domain_leaves_the_others() -> None:
    found = read("  domains:\n  - name: row\n    after: block\n    keys:\n    - a/b\n    - B/c\n")
    assert found.problems == (
        "config.yaml:9: catalogue.domains[0].keys[1]: 'B/c' is not a label key with a lower-case DNS prefix",
    )
    assert found.catalogue.keys["row"] == ("a/b",)


def test_a_key_that_no_scheduler_takes_is_known_to_the_status() -> None:
    advice = read(f"  keys:\n  - {{key: {LONG}, domain: rack}}\n").catalogue.advise(LONG)
    assert advice is not None
    assert advice.reason == NOT_ACCEPTED
    assert "cannot carry the level 'rack'" in advice.why
    assert "Grove takes 63" in advice.why


def test_more_levels_than_kai_and_kueue_take_are_refused() -> None:
    body = "".join(f"  - {{name: d{i}, before: host, keys: [a/k{i}]}}\n" for i in range(8))
    found = read("  domains:\n" + body)
    assert len(found.catalogue.domains) == 16
    assert len(found.problems) == 8 - (16 - len(BUILT_IN.domains))
    assert all("KAI and Kueue take 16 levels" in problem for problem in found.problems)


@pytest.mark.parametrize("domain", INSIDE_A_NODE)
def test_what_lies_inside_a_node_is_no_level(domain: str) -> None:
    (problem,) = read(f"  domains:\n  - {{name: {domain}, before: host, keys: [a/b]}}\n").problems
    assert "a node label cannot tell parts of a node apart" in problem


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "config.yaml: begin it with apiVersion: config.gpu.topology/v1alpha1"),
        (b"- a\n", "begin it with apiVersion"),
        (b"kind: ControllerConfig\n", "config.yaml:1: apiVersion: must be config.gpu.topology/v1alpha1"),
        (HEAD.replace("v1alpha1", "v2").encode(), "config.yaml:1: apiVersion: must be config.gpu.topology/v1alpha1"),
        (HEAD.replace("Controller", "").encode(), "config.yaml:2: kind: must be ControllerConfig"),
        (b"apiVersion: [\n", "config.yaml:2: not YAML"),
        (HEAD.encode() + b"---\n" + HEAD.encode(), "config.yaml:4: not YAML"),
        (b"\xff\xfe", "config.yaml:1: not UTF-8"),
        (b"[" * 100_000, "config.yaml"),
    ],
)
def test_what_is_no_configuration_says_so(content: bytes, says: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_config(content, "config.yaml")
    assert says in str(caught.value)


def test_an_empty_catalogue_is_the_built_in_one() -> None:
    assert read("").catalogue == read("  keys:\n  domains: []\n").catalogue == BUILT_IN
