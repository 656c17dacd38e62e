"""Which domain values are those of a fabric, and which labels name a host."""

import pytest
from toposcope.api.label_keys import HOSTNAME
from toposcope.hierarchy.node import fabric_of, host_of, node_facts, spans_nodes

UUID = "55c2d310-3b8d-4a8e-9a7e-0123456789ab"
NO_UUID = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("value", [f"{UUID}.32766", f"{UUID.upper()}.0"], ids=["lower-case", "upper-case"])
def test_clique_of_a_fabric_spans_nodes(value: str) -> None:
    assert spans_nodes(value)
    assert fabric_of(value) == value[:36]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("node-7", id="short"),
        pytest.param("ip-10-0-120-34.eu-central-1.compute.internal", id="dots"),
    ],
)
def test_name_of_a_node_spans_no_nodes(value: str) -> None:
    assert not spans_nodes(value)


@pytest.mark.parametrize("value", [UUID, f"{NO_UUID}.32766", f"g{UUID[1:]}.1"], ids=["alone", "zeros", "no-hex"])
def test_value_without_a_fabric_spans_no_nodes(value: str) -> None:
    assert not spans_nodes(value)


@pytest.mark.parametrize("clique", ["", "x", "1.2", "\u0661"], ids=["empty", "letter", "two", "other-digit"])
def test_fabric_without_a_clique_spans_no_nodes(clique: str) -> None:
    assert not spans_nodes(f"{UUID}.{clique}")


@pytest.mark.parametrize(("label", "host"), [("n1", ""), ("h1", "h1")], ids=["same-name", "other-name"])
def test_host_is_a_label_that_differs_from_the_name(label: str, host: str) -> None:
    node = node_facts(
        "n1",
        "",
        (HOSTNAME,),
        (label,),
        is_ready=True,
        is_schedulable=True,
        gpus=8,
    )
    assert host_of("n1", label) == host
    assert node.host == host


def test_node_without_the_label_has_no_host() -> None:
    node = node_facts(
        "n1",
        "",
        (),
        (),
        is_ready=True,
        is_schedulable=True,
        gpus=8,
    )
    assert host_of("n1", None) == ""
    assert node.host == ""
