"""Which domain values are those of a fabric."""

import pytest
from toposcope.api.label_keys import HOSTNAME
from toposcope.hierarchy.node import fabric_of, host_of, node_facts, spans_nodes

UUID = "55c2d310-3b8d-4a8e-9a7e-0123456789ab"


@pytest.mark.parametrize("value", [f"{UUID}.32766", f"{UUID.upper()}.0"])
def test_a_fabric_spans_nodes(value: str) -> None:
    assert spans_nodes(value)
    assert fabric_of(value) == value[:36]


NO_FABRIC = (UUID, "00000000-0000-0000-0000-000000000000.32766", f"g{UUID[1:]}.1")
NAMES = ("", "node-7", "ip-10-0-120-34.eu-central-1.compute.internal")
NO_CLIQUE = (f"{UUID}.", f"{UUID}.x", f"{UUID}.1.2", f"{UUID}.\u0661")


@pytest.mark.parametrize("value", [*NAMES, *NO_FABRIC, *NO_CLIQUE])
def test_a_name_does_not(value: str) -> None:
    assert not spans_nodes(value)


@pytest.mark.parametrize(("label", "host"), [(None, ""), ("n1", ""), ("h1", "h1")])
def test_a_host_is_a_label_that_differs_from_the_name(label: str | None, host: str) -> None:
    assert host_of("n1", label) == host
    labels = {} if label is None else {HOSTNAME: label}
    node = node_facts("n1", "", tuple(labels), tuple(labels.values()), ready=True, schedulable=True, gpus=8)
    assert node.host == host
