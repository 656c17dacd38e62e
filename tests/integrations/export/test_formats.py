"""The formats that say which labels are the levels: there and back again, and what none of them can hold."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.integrations.export.hierarchies import ODD_KEYS, random_hierarchy
from tests.support.saved import cluster_topology
from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level, level_problems
from toposcope.integrations.documents import read_topology
from toposcope.integrations.framework.levels import ExportError, TopologyLevels, UnreadableDocumentError, named_levels
from toposcope.integrations.framework.topologies import read_node_labels
from toposcope.integrations.grove import topology as grove
from toposcope.integrations.kai import topology as kai
from toposcope.integrations.kueue import topology as kueue
from toposcope.integrations.osmo import topology as osmo
from toposcope.integrations.runai import topology as runai


@dataclass(frozen=True)
class Format:
    """How levels are written for a system, and read again."""

    write: Callable[[TopologyLevels], Any]
    read: Callable[[Any], TopologyLevels]


GROVE = Format(grove.write, grove.read)
KAI_ALIASES = Format(kai.write_aliases, read_node_labels)
OSMO = Format(osmo.write, osmo.read)

FORMATS = {
    "grove": GROVE,
    "kai": Format(kai.write, read_node_labels),
    "kai-aliases": KAI_ALIASES,
    "kueue": Format(kueue.write, read_node_labels),
    "runai": Format(runai.write, runai.read),
    "osmo": OSMO,
}
FORMATS_WITH_DOMAINS = {"grove": GROVE, "kai-aliases": KAI_ALIASES, "osmo": OSMO}
FORMATS_OF_OLDER_GROVES = {
    "grove": Format(grove.write_older, grove.read),
    "helm-grove": Format(grove.write_older_values, grove.read_values),
}

HOST = Level("host", HOSTNAME)
ZONE = Level("zone", "topology.kubernetes.io/zone")
RACK = Level("rack", "example.com/rack")
NVLINK_DOMAIN = Level("nvlink-domain", "gpu.topology/nvlink-domain")


def levels(*of_topology: Level) -> TopologyLevels:
    return TopologyLevels("x", of_topology)


def each(formats: dict[str, Format], argument: str = "topology_format") -> pytest.MarkDecorator:
    """Run a test once per format."""
    return pytest.mark.parametrize(argument, formats.values(), ids=formats)


@each(FORMATS, "first")
@each(FORMATS, "second")
def test_conversion_between_formats_keeps_keys_in_order(first: Format, second: Format) -> None:
    for seed in range(60):
        hierarchy = random_hierarchy(seed)

        converted = first.read(first.write(hierarchy))
        assert converted.keys == hierarchy.keys
        assert not level_problems(converted.levels)

        converted_again = second.read(second.write(converted))
        assert converted_again.keys == hierarchy.keys

        document = first.write(converted_again)
        assert first.write(first.read(document)) == document


@each(FORMATS_WITH_DOMAINS)
def test_formats_with_domains_keep_the_domains(topology_format: Format) -> None:
    for seed in range(60):
        hierarchy = random_hierarchy(seed)
        assert topology_format.read(topology_format.write(hierarchy)).levels == hierarchy.levels


@each(FORMATS_OF_OLDER_GROVES)
def test_older_grove_takes_its_seven_domains(topology_format: Format) -> None:
    document = topology_format.write(levels(ZONE, RACK, HOST))
    assert topology_format.read(document) == TopologyLevels("grove-topology", (ZONE, RACK, HOST))


@each(FORMATS_OF_OLDER_GROVES)
def test_older_grove_takes_no_other_domain(topology_format: Format) -> None:
    problem = r"level 'nvlink-domain': Grove before v0\.1\.0-alpha\.9 has only region, zone"
    with pytest.raises(ExportError, match=problem):
        topology_format.write(levels(ZONE, RACK, NVLINK_DOMAIN))


def test_newer_grove_values_enable_topologies_without_levels() -> None:
    values = grove.write_values(levels(HOST))

    scheduler = {"defaultProfileName": "kai-scheduler"}  # which alone keeps constraints
    assert values == {
        "config": {
            "topologyAwareScheduling": {"enabled": True},
            "scheduler": scheduler,
        }
    }
    with pytest.raises(UnreadableDocumentError, match="missing required field `levels`"):
        grove.read_values(values)


@each(FORMATS)
def test_levels_that_a_scheduler_would_refuse_are_not_written(topology_format: Format) -> None:
    upper_case = Level("Rack", "example.com/rack")
    no_label_key = Level("a", "a b")

    with pytest.raises(ExportError) as raised:
        topology_format.write(levels(HOST, upper_case, no_label_key))

    fields = [problem.partition(":")[0] for problem in raised.value.problems]
    assert fields == ["spec.levels[0].key", "spec.levels[1].domain", "spec.levels[2].key"]


@each(FORMATS)
def test_no_levels_are_not_written(topology_format: Format) -> None:
    with pytest.raises(ExportError, match="there are no levels to write"):
        topology_format.write(levels())


def test_kai_alias_must_not_be_a_label_key() -> None:
    with pytest.raises(ExportError, match="level 'rack': KAI rejects an alias that is a label key"):
        kai.write_aliases(levels(RACK, Level("b", "rack")))


def test_kueue_before_v0_13_takes_eight_levels() -> None:
    nine_levels = [Level(f"d{number}", f"example.com/l{number}") for number in range(9)]
    hierarchy = levels(*nine_levels)

    document = kueue.write(hierarchy)

    assert document["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    with pytest.raises(ExportError, match="there are 9 levels, and Kueue's v1alpha1 allows 8"):
        kueue.write(hierarchy, "v1alpha1")


def test_runai_document_has_its_cluster_id() -> None:
    hierarchy = TopologyLevels("default-topology", (HOST,))

    document = runai.write(hierarchy, "7")

    assert document == {"name": "default-topology", "clusterId": "7", "levels": [HOSTNAME]}
    answer = document | {"id": "1", "phase": "Ready"}
    assert runai.read(answer) == hierarchy


def test_domains_of_bare_keys_come_from_catalogue_or_key() -> None:
    keys = ("topology.kubernetes.io/zone", "topology.k8s.aws/zone-id", *ODD_KEYS)
    domains = [level.domain for level in named_levels(keys)]
    assert domains == [
        "zone",
        "zone-2",
        "rack-1",
        "rack",
        "level-numa",
        "level-9th-floor",
        "level-gpu",
        "ups",
        "rack-2",
    ]


@each(FORMATS)
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(None, id="null"),
        pytest.param(7, id="number"),
        pytest.param("x", id="text"),
        pytest.param([], id="empty-list"),
        pytest.param([{}], id="list"),
        pytest.param({}, id="empty"),
        pytest.param({"spec": 1}, id="spec-is-a-number"),
        pytest.param({"metadata": {"name": "a"}, "spec": {"levels": {}}}, id="levels-are-no-list"),
    ],
)
def test_malformed_document_is_an_error_that_says_what_is_expected(topology_format: Format, document: Any) -> None:
    with pytest.raises(UnreadableDocumentError, match=r"^this is not a.+: (Expected|Object missing)"):
        topology_format.read(document)


def test_malformed_document_error_names_the_field() -> None:
    document = {
        "metadata": {"name": "a"},
        "spec": {
            "levels": [
                {"nodeLabel": "a"},
                {"nodeLabel": 3},
            ]
        },
    }
    problem = "this is not a Topology of KAI's or Kueue's: Expected `str`, got `int` - at `spec.levels[1].nodeLabel`"
    with pytest.raises(UnreadableDocumentError, match=re.escape(problem)):
        read_node_labels(document)


@each(FORMATS)
def test_read_topology_recognises_each_format(topology_format: Format) -> None:
    document = topology_format.write(random_hierarchy(3))
    assert read_topology(document) == topology_format.read(document)


def test_read_topology_recognises_a_cluster_topology() -> None:
    document = cluster_topology(levels=[{"domain": "host", "key": HOSTNAME}])
    assert read_topology(document) == TopologyLevels("cluster", (HOST,))


def test_read_topology_of_a_cluster_topology_without_levels_is_an_error() -> None:
    document = cluster_topology(levels=[{"domain": "host", "key": HOSTNAME}])
    with pytest.raises(UnreadableDocumentError, match=r"ClusterTopology with spec\.levels"):
        read_topology(document | {"spec": {}})


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(None, id="null"),
        pytest.param(7, id="number"),
        pytest.param("x", id="text"),
        pytest.param([], id="empty-list"),
        pytest.param([{}], id="list"),
        pytest.param({"apiVersion": "v1", "kind": "Node"}, id="another-kind"),
        pytest.param({"kind": ["x"]}, id="kind-is-a-list"),
    ],
)
def test_read_topology_of_another_document_is_an_error(document: Any) -> None:
    with pytest.raises(UnreadableDocumentError, match=r"(no|not a) topology"):
        read_topology(document)
