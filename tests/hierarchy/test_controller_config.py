"""The configuration file: what it adds, and what is said of what it cannot."""

import pytest
from toposcope.api.levels import INSIDE_A_NODE, Level
from toposcope.hierarchy.catalogue import BUILT_IN, NEAR_MISS, NOT_ACCEPTED
from toposcope.hierarchy.controller_config import Config, UnreadableError, read_config

HEAD = "apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\ncatalogue:\n"
LONG = "example.com/" + "k" * 60


def read(body: str) -> Config:
    return read_config((HEAD + body).encode(), "config.yaml")


def test_own_key_comes_first_or_last_in_its_domain() -> None:
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


def test_own_domain_has_a_place_in_the_order() -> None:
    found = read(
        "  domains:\n"
        "  - {name: row, after: block, keys: [example.com/row]}\n"
        "  - {name: aisle, before: row, keys: [example.com/aisle, example.com/gang]}\n"
        "  keys:\n"
        "  - {key: example.com/zeile, domain: row, position: Fallback}\n"
    )
    assert found.problems == ()
    domains = found.catalogue.domains
    block = domains.index("block")
    assert domains[block : block + 4] == ("block", "aisle", "row", "leaf-group")
    assert domains[-1] == "host"
    assert found.catalogue.keys["row"] == ("example.com/row", "example.com/zeile")

    carried = ("example.com/row", "example.com/gang", "kubernetes.io/hostname", "topology.kubernetes.io/zone")
    levels = found.catalogue.infer(dict.fromkeys(carried, 1))
    assert [level.domain for level in levels] == ["zone", "aisle", "row", "host"]


def test_key_moves_to_the_domain_that_the_file_gives_it() -> None:
    found = read("  keys:\n  - {key: topology.k8s.aws/network-node-layer-3, domain: rack}\n")
    assert "topology.k8s.aws/network-node-layer-3" not in found.catalogue.keys["leaf"]
    assert found.catalogue.infer({"topology.k8s.aws/network-node-layer-3": 1}) == (
        Level("rack", "topology.k8s.aws/network-node-layer-3"),
    )


def test_near_miss_that_the_file_lists_is_a_level() -> None:
    found = read("  keys:\n  - {key: topology.kubernetes.io/rack, domain: rack}\n")
    assert found.catalogue.advise("topology.kubernetes.io/rack") is None
    assert "topology.kubernetes.io/rack" in found.catalogue.level_keys


def test_placeholders_and_near_misses_of_the_file_are_added() -> None:
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
    assert advice.reason == NEAR_MISS
    assert advice.instead == "example.com/rack"
    assert advice.why == "a slip of 2024"
    assert found.catalogue.advise("example.com/old") is not None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            "  rows: []\n",
            ":4: catalogue.rows: unknown field; known fields: domains, keys, nearMisses, placeholders",
            id="unknown-field",
        ),
        pytest.param(
            "  placeholders: []\n  placeholders: [a]\n  keys: []\n",
            ":5: catalogue.placeholders: is listed twice; remove one",
            id="field-twice",
        ),
        pytest.param(
            "  keys: {key: a/b}\n",
            ":4: catalogue.keys: must be a list; begin each entry with '- '",
            id="no-list",
        ),
        pytest.param(
            '  nearMisses:\n  - {key: a/b, "\\x1b[31m": x}\n',
            ":5: catalogue.nearMisses[0].\\u001b[31m: unknown field; known fields: instead, key, why",
            id="unprintable-field",
        ),
        pytest.param(
            "  keys:\n  - a/b\n",
            ":5: catalogue.keys[0]: must have fields: domain, key, position",
            id="no-mapping",
        ),
        pytest.param(
            "  keys:\n  - {key: a/b}\n",
            ":5: catalogue.keys[0].domain: is missing",
            id="missing-domain",
        ),
        pytest.param(
            "  keys:\n  - {key: a/b, domain: rock}\n",
            (
                ":5: catalogue.keys[0].domain: 'rock' is not a domain; known domains: region, zone, datacenter, "
                "fabric, block, leaf-group, leaf, rack, nvlink-domain, nvlink-partition, host; add others in "
                "catalogue.domains"
            ),
            id="unknown-domain",
        ),
        pytest.param(
            "  keys:\n  - {key: a/b, domain: host}\n",
            ":5: catalogue.keys[0].domain: schedulers identify a host only by kubernetes.io/hostname",
            id="host-by-another-key",
        ),
        pytest.param(
            "  keys:\n  - {key: a/b, domain: rack, position: First}\n",
            ":5: catalogue.keys[0].position: 'First' must be Preferred or Fallback",
            id="unknown-position",
        ),
        pytest.param(
            "  keys:\n  - {key: a/b, domain: rack, postion: Fallback}\n",
            ":5: catalogue.keys[0].postion: unknown field; known fields: domain, key, position",
            id="misspelled-field",
        ),
        pytest.param(
            "  keys:\n  - {key: a/b, domain: rack, key: a/c}\n",
            ":5: catalogue.keys[0].key: is listed twice; remove one",
            id="key-twice",
        ),
        pytest.param(
            "  keys:\n  -\n    domain: rack\n    key: A/b\n",
            ":7: catalogue.keys[0].key: 'A/b' is not a label key with a lower-case DNS prefix",
            id="upper-case-key",
        ),
        pytest.param(
            (
                "  keys:\n"
                "  - {key: example.com/kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk, domain: rack}\n"
            ),
            (
                ":5: catalogue.keys[0].key: "
                "'example.com/kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk' has 72 characters "
                "with its prefix; Grove takes 63"
            ),
            id="too-long-key",
        ),
        pytest.param(
            "  keys:\n  - {key: kubernetes.io/hostname, domain: rack}\n",
            ":5: catalogue.keys[0].key: 'kubernetes.io/hostname' can only be the host level",
            id="hostname-as-rack",
        ),
        pytest.param(
            "  keys:\n  - {key: gpu.topology/shape, domain: rack}\n",
            ":5: catalogue.keys[0].key: 'gpu.topology/shape' describes a node, not where it is",
            id="label-of-the-shape",
        ),
        pytest.param(
            "  keys:\n  - {key: [], domain: rack}\n",
            ":5: catalogue.keys[0].key: must be text",
            id="key-as-list",
        ),
        pytest.param(
            "  domains:\n  - {name: numa, after: rack, keys: [a/b]}\n",
            (
                ":5: catalogue.domains[0].name: 'numa' lies inside a node, and a node label cannot tell parts of "
                "a node apart; remove the level and end with 'host'"
            ),
            id="domain-inside-a-node",
        ),
        pytest.param(
            "  domains:\n  - {name: Row, after: rack, keys: [a/b]}\n",
            (
                ":5: catalogue.domains[0].name: 'Row' must be 1-63 lower-case letters, digits or '-', begin with "
                "a letter and not end with '-'"
            ),
            id="upper-case-domain",
        ),
        pytest.param(
            "  domains:\n  - {name: rack, after: block, keys: [a/b]}\n",
            ":5: catalogue.domains[0].name: 'rack' already exists; add keys to it in catalogue.keys",
            id="built-in-domain",
        ),
        pytest.param(
            "  domains:\n  - {name: row, keys: [a/b]}\n",
            (":5: catalogue.domains[0]: say where it belongs, from the broadest down: after or before another domain"),
            id="domain-without-place",
        ),
        pytest.param(
            "  domains:\n  - {name: row, after: a, before: b, keys: [a/b]}\n",
            (":5: catalogue.domains[0]: say where it belongs, from the broadest down: after or before another domain"),
            id="domain-with-two-places",
        ),
        pytest.param(
            "  domains:\n  - {name: row, after: bock, keys: [a/b]}\n",
            (
                ":5: catalogue.domains[0].after: 'bock' is not a domain; known domains: region, zone, datacenter, "
                "fabric, block, leaf-group, leaf, rack, nvlink-domain, nvlink-partition, host; add others in "
                "catalogue.domains"
            ),
            id="unknown-neighbour",
        ),
        pytest.param(
            "  domains:\n  - {name: slot, after: host, keys: [a/b]}\n",
            ":5: catalogue.domains[0].after: nothing is narrower than a host; write before: host",
            id="narrower-than-host",
        ),
        pytest.param(
            "  domains:\n  - {name: row, after: block, keys: []}\n",
            ":5: catalogue.domains[0].keys: list a node label that carries it",
            id="domain-without-keys",
        ),
        pytest.param(
            "  placeholders: ['a b']\n",
            ":4: catalogue.placeholders[0]: 'a b' is not a valid label value, so no node can carry it",
            id="bad-placeholder",
        ),
        pytest.param(
            "  nearMisses:\n  - {key: topology.kubernetes.io/zone}\n",
            (
                ":5: catalogue.nearMisses[0].key: 'topology.kubernetes.io/zone' is a level key; "
                "remove it here or from its level"
            ),
            id="near-miss-that-is-a-level",
        ),
    ],
)
def test_bad_entry_is_named_with_its_line_and_the_rest_stays(body: str, problem: str) -> None:
    heading = "" if "nearMisses" in body else "  nearMisses:\n"
    found = read(f"{body}{heading}  - {{key: example.com/rak, instead: example.com/rack}}\n")
    assert found.problems == (f"config.yaml{problem}",)
    assert found.catalogue.advise("example.com/rak") is not None
    assert found.catalogue.keys == BUILT_IN.keys


def test_bad_key_of_a_domain_leaves_the_others() -> None:
    found = read("  domains:\n  - name: row\n    after: block\n    keys:\n    - a/b\n    - B/c\n")
    assert found.problems == (
        "config.yaml:9: catalogue.domains[0].keys[1]: 'B/c' is not a label key with a lower-case DNS prefix",
    )
    assert found.catalogue.keys["row"] == ("a/b",)


def test_key_that_is_too_long_for_schedulers_is_explained() -> None:
    advice = read(f"  keys:\n  - {{key: {LONG}, domain: rack}}\n").catalogue.advise(LONG)
    assert advice is not None
    assert advice.reason == NOT_ACCEPTED
    assert "cannot carry the level 'rack'" in advice.why
    assert "Grove takes 63" in advice.why


def test_more_levels_than_kai_and_kueue_take_are_refused() -> None:
    body = "  domains:\n"
    for number in range(8):
        body += f"  - {{name: d{number}, before: host, keys: [a/k{number}]}}\n"
    found = read(body)
    assert len(found.catalogue.domains) == 16
    built_in = len(BUILT_IN.domains)
    assert len(found.problems) == 8 - (16 - built_in)
    for problem in found.problems:
        assert "KAI and Kueue take 16 levels" in problem


@pytest.mark.parametrize("domain", INSIDE_A_NODE)
def test_domain_inside_a_node_is_no_level(domain: str) -> None:
    found = read(f"  domains:\n  - {{name: {domain}, before: host, keys: [a/b]}}\n")
    (problem,) = found.problems
    assert "a node label cannot tell parts of a node apart" in problem


API_VERSION = "apiVersion: must be config.gpu.topology/v1alpha1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            b"",
            "config.yaml: must begin with apiVersion: config.gpu.topology/v1alpha1",
            id="empty",
        ),
        pytest.param(
            b"- a\n",
            "must begin with apiVersion",
            id="list",
        ),
        pytest.param(
            b"kind: ControllerConfig\n",
            f"config.yaml:1: {API_VERSION}",
            id="no-version",
        ),
        pytest.param(
            HEAD.replace("v1alpha1", "v2").encode(),
            f"config.yaml:1: {API_VERSION}",
            id="other-version",
        ),
        pytest.param(
            HEAD.replace("Controller", "").encode(),
            "config.yaml:2: kind: must be ControllerConfig",
            id="other-kind",
        ),
        pytest.param(
            b"apiVersion: [\n",
            "config.yaml:2: not YAML",
            id="no-yaml",
        ),
        pytest.param(
            HEAD.encode() + b"---\n" + HEAD.encode(),
            "config.yaml:4: not YAML",
            id="two-documents",
        ),
        pytest.param(
            b"\xff\xfe",
            "config.yaml:1: not UTF-8",
            id="no-utf-8",
        ),
        pytest.param(
            b"[" * 100_000,
            "config.yaml",
            id="too-deep",
        ),
    ],
)
def test_text_that_is_no_configuration_is_rejected(content: bytes, message: str) -> None:
    with pytest.raises(UnreadableError) as rejected:
        read_config(content, "config.yaml")
    assert message in str(rejected.value)


def test_empty_catalogue_is_the_built_in_one() -> None:
    assert read("").catalogue == BUILT_IN
    with_empty_fields = read("  keys:\n  domains: []\n")
    assert with_empty_fields.catalogue == BUILT_IN
