"""The formats that say which labels are the levels: there and back again, and what none of them can hold."""

import random
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from tests.support.saved import cluster_topology
from tests.support.tables import each_case
from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level, level_problems
from toposcope.hierarchy.platforms import KEYS
from toposcope.integrations.documents import read_topology as recognise
from toposcope.integrations.framework.levels import ExportError, TopologyLevels, UnreadableDocumentError, named_levels
from toposcope.integrations.framework.topologies import read_node_labels
from toposcope.integrations.grove import topology as grove
from toposcope.integrations.kai import topology as kai
from toposcope.integrations.kueue import topology as kueue
from toposcope.integrations.osmo import topology as osmo
from toposcope.integrations.runai import topology as runai

Write = Callable[[TopologyLevels], Any]
Read = Callable[[Any], TopologyLevels]

FORMATS: dict[str, tuple[Write, Read]] = {
    "grove": (grove.write, grove.read),
    "kai": (kai.write, read_node_labels),
    "kai-aliases": (kai.write_aliases, read_node_labels),
    "kueue": (kueue.write, read_node_labels),
    "runai": (runai.write, runai.read),
    "osmo": (osmo.write, osmo.read),
}
WITH_DOMAINS = ("grove", "kai-aliases", "osmo")
OLDER: dict[str, tuple[Write, Read]] = {
    "grove": (grove.write_older, grove.read),
    "helm-grove": (grove.write_older_values, grove.read_values),
}
ODD_KEYS = ("example.com/Rack_1", "rack", "a.b/numa", "example.com/9th.floor", "x/gpu", "example.com/UPS", "y/rack")


def a_hierarchy(seed: int) -> TopologyLevels:
    """Levels from the catalogue and from keys that nobody knows, each key and domain once, hostname last if at all."""
    rng = random.Random(seed)
    known = [Level(domain, rng.choice(keys)) for domain, keys in KEYS.items() if domain != "host"]
    odd = [Level(f"level-{number}", key) for number, key in enumerate(ODD_KEYS) if "/" in key]
    chosen = rng.sample(known + odd, rng.randint(1, 14))
    return TopologyLevels(f"t{seed}", (*chosen, *([Level("host", HOSTNAME)] if rng.random() < 0.5 else [])))


@pytest.mark.parametrize(("first", "second"), list(product(FORMATS, FORMATS)))
def test_every_way_from_one_format_to_another_keeps_the_keys_in_their_order(first: str, second: str) -> None:
    write, read = FORMATS[first]
    write_on, read_on = FORMATS[second]
    for seed in range(60):
        hierarchy = a_hierarchy(seed)
        there = read(write(hierarchy))
        assert there.keys == hierarchy.keys
        assert not level_problems(there.levels)
        again = read_on(write_on(there))
        assert again.keys == hierarchy.keys
        assert write(read(write(again))) == write(again)


@pytest.mark.parametrize("name", WITH_DOMAINS)
def test_formats_with_domains_lose_nothing(name: str) -> None:
    write, read = FORMATS[name]
    for seed in range(60):
        hierarchy = a_hierarchy(seed)
        assert read(write(hierarchy)).levels == hierarchy.levels


@pytest.mark.parametrize("name", OLDER)
def test_older_groves_take_their_seven_domains(name: str) -> None:
    levels = (Level("zone", "topology.kubernetes.io/zone"), Level("rack", "example.com/rack"), Level("host", HOSTNAME))
    write, read = OLDER[name]
    assert read(write(TopologyLevels("x", levels))) == TopologyLevels("grove-topology", levels)
    with pytest.raises(ExportError, match=r"level 'nvlink-domain': Grove before v0\.1\.0-alpha\.9 knows region, zone"):
        write(TopologyLevels("x", (*levels[:2], Level("nvlink-domain", "gpu.topology/nvlink-domain"))))


def test_newer_values_of_the_chart_switch_on_and_hold_no_levels() -> None:
    values = grove.write_values(TopologyLevels("x", (Level("host", HOSTNAME),)))
    scheduler = {"defaultProfileName": "kai-scheduler"}  # which alone keeps constraints
    assert values == {"config": {"topologyAwareScheduling": {"enabled": True}, "scheduler": scheduler}}
    with pytest.raises(UnreadableDocumentError, match="missing required field `levels`"):
        grove.read_values(values)


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_scheduler_would_refuse_is_not_written(name: str) -> None:
    write, _ = FORMATS[name]
    with pytest.raises(ExportError) as wrong:
        write(TopologyLevels("x", (Level("host", HOSTNAME), Level("Rack", "example.com/rack"), Level("a", "a b"))))
    assert [problem.partition(":")[0] for problem in wrong.value.problems] == [
        "spec.levels[0].key",
        "spec.levels[1].domain",
        "spec.levels[2].key",
    ]
    with pytest.raises(ExportError, match="there is no level"):
        write(TopologyLevels("x", ()))


def test_an_alias_must_not_be_a_key() -> None:
    with pytest.raises(ExportError, match="level 'rack': KAI takes no alias that is a label key"):
        kai.write_aliases(TopologyLevels("x", (Level("rack", "example.com/rack"), Level("b", "rack"))))


def test_kueue_before_v0_13_takes_eight_levels() -> None:
    levels = tuple(Level(f"d{i}", f"example.com/l{i}") for i in range(9))
    assert kueue.write(TopologyLevels("x", levels))["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    with pytest.raises(ExportError, match="there are 9 levels, and Kueue's v1alpha1 takes 8"):
        kueue.write(TopologyLevels("x", levels), "v1alpha1")


def test_runai_gets_its_cluster_id() -> None:
    hierarchy = TopologyLevels("default-topology", (Level("host", HOSTNAME),))
    assert runai.write(hierarchy, "7") == {"name": "default-topology", "clusterId": "7", "levels": [HOSTNAME]}
    assert runai.read({**runai.write(hierarchy, "7"), "id": "1", "phase": "Ready"}) == hierarchy


def test_domains_of_bare_keys_come_from_the_catalogue_or_from_the_key() -> None:
    keys = ("topology.kubernetes.io/zone", "topology.k8s.aws/zone-id", *ODD_KEYS)
    domains = " ".join(level.domain for level in named_levels(keys))
    assert domains == "zone zone-2 rack-1 rack level-numa level-9th-floor level-gpu ups rack-2"


@pytest.mark.parametrize("name", FORMATS)
@each_case("tables/integrations-export.yaml")
def test_malformed_documents_are_errors_that_name_the_field(name: str, document: Any) -> None:
    _, read = FORMATS[name]
    with pytest.raises(UnreadableDocumentError, match=r"^this is not a.+: (Expected|Object missing)"):
        read(document)


def test_the_field_is_named() -> None:
    document = {"metadata": {"name": "a"}, "spec": {"levels": [{"nodeLabel": "a"}, {"nodeLabel": 3}]}}
    words = "this is not a Topology of KAI's or Kueue's: Expected `str`, got `int` - at `spec.levels[1].nodeLabel`"
    with pytest.raises(UnreadableDocumentError, match=re.escape(words)):
        read_node_labels(document)


@pytest.mark.parametrize("name", FORMATS)
def test_a_document_tells_whose_it_is(name: str) -> None:
    write, read = FORMATS[name]
    document = write(a_hierarchy(3))
    assert recognise(document) == read(document)


def test_our_own_topology_is_known_too() -> None:
    document = cluster_topology(levels=[{"domain": "host", "key": HOSTNAME}])
    assert recognise(document) == TopologyLevels("cluster", (Level("host", HOSTNAME),))
    with pytest.raises(UnreadableDocumentError, match=r"ClusterTopology with spec\.levels"):
        recognise({**document, "spec": {}})


@each_case("tables/integrations-export.yaml")
def test_other_documents_are_of_nobody(document: Any) -> None:
    with pytest.raises(UnreadableDocumentError, match=r"(no|not a) topology"):
        recognise(document)
