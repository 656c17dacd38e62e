"""Azure's fault domains are no zones: as the controller decodes nodes, and as commands do."""

from typing import Any

import msgspec
import pytest
from tests.snapshot.clusters import node_of
from toposcope.api.levels import Level
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import cover
from toposcope.hierarchy.effective_levels import inferred_levels
from toposcope.hierarchy.segments import divide
from toposcope.hierarchy.table import Table
from toposcope.snapshot.scope import table_of

pytestmark = pytest.mark.regression
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOST = "kubernetes.io/hostname"
AZURE = "azure:///subscriptions/s/resourceGroups/r/virtualMachines/vm"


def node(name: str, zone: str, provider_id: str = AZURE) -> dict[str, Any]:
    """A Ready node in a zone, or what its label says for one."""
    labels = {HOST: name, REGION: "eastus", ZONE: zone, "gpu.topology/gpus": "8"}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"providerID": provider_id},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def of_controller(*nodes: dict[str, Any]) -> Table:
    decoder = NodeDecoder(BUILT_IN.tracked)
    return Table([decoder(msgspec.json.encode(each))[2] for each in nodes])


def of_commands(*nodes: dict[str, Any]) -> Table:
    views = [node_of(each) for each in nodes]
    return table_of(views, BUILT_IN.level_keys)


def levels_of(table: Table) -> list[str]:
    return [level.domain for level in inferred_levels(None, table, BUILT_IN)]


@pytest.mark.parametrize("table_of_nodes", [of_controller, of_commands])
def test_number_as_zone_of_an_azure_node_is_no_level(table_of_nodes: Any) -> None:
    nodes = [node(f"n{number}", str(number % 5)) for number in range(8)]
    assert levels_of(table_of_nodes(*nodes)) == ["region", "host"]


@pytest.mark.parametrize("table_of_nodes", [of_controller, of_commands])
@pytest.mark.parametrize(
    ("zones", "provider_id"),
    [
        pytest.param(("eastus-1", "eastus-2"), AZURE, id="availability zones"),
        pytest.param(("0", "1"), "aws:///0/i-1", id="another cloud"),
        pytest.param(("0", "1"), "", id="at home"),
    ],
)
def test_other_zones_are_a_level(table_of_nodes: Any, zones: tuple[str, str], provider_id: str) -> None:
    nodes = [node(f"n{number}", zone, provider_id) for number, zone in enumerate(zones)]
    assert levels_of(table_of_nodes(*nodes)) == ["region", "zone", "host"]


@pytest.mark.parametrize("table_of_nodes", [of_controller, of_commands])
def test_fault_domain_is_named_as_the_label_says_it(table_of_nodes: Any) -> None:
    table = table_of_nodes(node("a", "eastus-1"), node("b", "0"), node("c", "1"))

    (coverage,) = cover([Level("zone", ZONE)], table)

    assert coverage.nodes == 1
    assert coverage.placeholders == " (1 with the placeholder '0', 1 with the placeholder '1')"


@pytest.mark.parametrize("table_of_nodes", [of_controller, of_commands])
def test_selector_of_a_segment_has_the_values_of_the_label(table_of_nodes: Any) -> None:
    """A selector is for the API server, which knows no words in their place."""
    without_zone = node("c", "")
    del without_zone["metadata"]["labels"][ZONE]
    table = table_of_nodes(node("a", "eastus-1"), node("b", "0"), without_zone)

    division = divide(table, BUILT_IN, 95)

    assert division is not None
    zoned = next(segment for segment in division.segments if segment.own)
    assert zoned.unlike == {ZONE: ("0",)}
    assert division.doubtful == ("b",)
