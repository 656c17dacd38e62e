"""`toposcope matrix`: how the GPUs and NICs of one node are linked."""

import json
from pathlib import Path

import pytest
from tests.cli.clusters import demo
from tests.cli.conftest import Command, CommandOnCluster, write_cluster
from tests.support.pages import expected_page
from tests.support.saved import Object, demo_nodes
from toposcope.api.label_keys import MATRIX


@pytest.mark.regression
def test_matrix_of_a_node_is_its_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "matrix l40s-1")
    assert ran.out == expected_page("cli/pages/matrix.txt", ran.out)


@pytest.mark.regression
def test_matrix_of_a_degraded_node_says_why(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "matrix h200-3", code=1)
    assert "! GPU 1: 17 of 18 NVLinks active" in ran.out


@pytest.mark.regression
def test_matrix_of_a_missing_node_is_an_error_with_a_suggestion(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "matrix h200-33", code=2)
    assert "did you mean 'h200-3'?" in ran.err


@pytest.mark.regression
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("matrix", "arguments are required: NODE", id="nothing"),
        pytest.param("matrix pod/x", "argument NODE: 'pod/x' is not a node: write NAME or node/NAME", id="pod"),
        pytest.param(
            "matrix pod x", "'pod' is not a kind that toposcope matrix takes: write NAME or node/NAME", id="two-words"
        ),
    ],
)
def test_wrong_argument_of_matrix_is_named(line: str, message: str, toposcope: Command) -> None:
    ran = toposcope(line, code=2)
    assert message in ran.err


def save_l40s_1(folder: Path, annotation: Object) -> str:
    """A cluster of l40s-1, with this annotation of its agent."""
    (node,) = demo_nodes(of={"l40s-1"})
    annotations = node["metadata"]["annotations"]
    annotations[MATRIX] = json.dumps(annotation)
    file = folder / "cluster.json"
    return write_cluster(file, node)


def matrix_annotation() -> Object:
    """What the agent of l40s-1 annotates."""
    (node,) = demo_nodes(of={"l40s-1"})
    annotations = node["metadata"]["annotations"]
    annotation: Object = json.loads(annotations[MATRIX])
    return annotation


def test_matrix_says_where_cables_end(tmp_path: Path, toposcope: Command) -> None:
    annotation = matrix_annotation()
    first = annotation["nics"][0]
    first["switch"] = "leaf-1"
    first["port"] = "Ethernet1/3"
    file = save_l40s_1(tmp_path, annotation)

    matrix = toposcope(f"matrix l40s-1 --from {file} -o json").json
    (cabled,) = [device for device in matrix["devices"] if device["switch"]]
    assert cabled["switch"] == "leaf-1"
    assert cabled["port"] == "Ethernet1/3"
    ran = toposcope(f"matrix l40s-1 --from {file}")
    assert ") to leaf-1 Ethernet1/3\n" in ran.out


def test_matrix_has_rows_of_data_direct_functions(tmp_path: Path, toposcope: Command) -> None:
    annotation = matrix_annotation()
    nics = annotation["nics"]
    first = nics[0]
    others = len(annotation["gpus"]) + len(nics)
    nics.append({"name": first["name"], "pci": "0000:02:00.0", "dd": True})
    nics.append({"name": "", "pci": "0000:03:00.0", "dd": True})
    rows = annotation["matrix"]
    rows.append("SYS " * others + "X")
    rows.append("SYS " * (others + 1) + "X")
    file = save_l40s_1(tmp_path, annotation)

    out = toposcope(f"matrix l40s-1 --from {file}").out
    assert "  DD0: mlx5_0 data-direct function (0000:02:00.0)\n" in out
    assert "  DD1: an unknown NIC data-direct function (0000:03:00.0)\n" in out
    names = toposcope(f"matrix l40s-1 --from {file} -o name").out
    assert names.split()[-2:] == ["DD0", "DD1"]
