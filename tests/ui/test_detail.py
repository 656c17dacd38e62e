"""One node in full."""

import json
from typing import Any

import msgspec
import pytest
from tests.snapshot.clusters import pod_of, snapshot
from tests.support.documents import read_manifest
from tests.support.saved import cluster_topology, demo_nodes, pod
from toposcope.api import label_keys
from toposcope.snapshot.decode import Decoder
from toposcope.snapshot.model import NodeView
from toposcope.ui import protocol
from toposcope.ui.detail import detail
from toposcope.ui.source import FullNode, gpu_uuids, last_write
from toposcope.ui.views import views_of

WHOLE = Decoder(lambda _name, _not_ok: True)
MATRIX = read_manifest("ui/matrix-annotation.yaml")


def _node(annotation: Any = MATRIX, **labels: str) -> NodeView:
    """A node of the demo with other labels and another annotation, as text or as what is in it."""
    document = demo_nodes(most=1)[0]
    metadata = document["metadata"]
    metadata["labels"] |= labels
    metadata["annotations"] = {}
    if annotation is not None:
        text = annotation if isinstance(annotation, str) else json.dumps(annotation)
        metadata["annotations"][label_keys.MATRIX] = text
    return WHOLE.node(lambda kind: msgspec.convert(document, kind))


def _detail(node: NodeView, since: str | None = None, written: str = "") -> protocol.NodeData:
    """What the page shows of a node that is alone in its cluster."""
    cluster = snapshot((node,))
    views = views_of(cluster)
    return detail(FullNode(node, written), views, cluster, since)


def _in_state(state: str) -> NodeView:
    """A node whose agent says that it is in this state."""
    labels = {label_keys.STATE: state}
    return _node(**labels)


def test_devices_have_their_labels_and_rails() -> None:
    gpu_0, gpu_1, nic_0, nic_1 = _detail(_node()).devices
    assert gpu_0.label == "GPU0"
    assert gpu_0.kind == "gpu"
    assert gpu_0.name == "GPU-0"
    assert gpu_0.numa == 0
    assert gpu_0.rails == ["NIC1"]
    assert gpu_0.neighbour == ""

    assert gpu_1.label == "GPU1"
    assert gpu_1.kind == "gpu"
    assert gpu_1.name == ""
    assert gpu_1.numa == 1
    assert gpu_1.rails == []
    assert gpu_1.neighbour == ""

    assert nic_0.label == "NIC0"
    assert nic_0.kind == "nic"
    assert nic_0.name == "mlx5_0"
    assert nic_0.numa == 0
    assert nic_0.rails == []
    assert nic_0.neighbour == "leaf-1 Ethernet1/3"

    assert nic_1.label == "NIC1"
    assert nic_1.kind == "nic"
    assert nic_1.name == "mlx5_1"
    assert nic_1.numa is None
    assert nic_1.rails == []
    assert nic_1.neighbour == ""


def test_links_are_a_symmetric_matrix() -> None:
    found = _detail(_node())
    assert found.matrix == [
        ["X", "NV18", "PIX", "PXB"],
        ["NV18", "X", "SYS", "NODE"],
        ["PIX", "SYS", "X", "PHB"],
        ["PXB", "NODE", "PHB", "X"],
    ]
    assert found.nvlink_domains == [["GPU0", "GPU1"]]


def test_cells_of_the_matrix_are_explained() -> None:
    own, nvlink, *paths = _detail(_node()).classes
    assert own.cell == "X"
    assert own.kind == "self"
    assert own.links == 0
    assert nvlink.cell == "NV18"
    assert nvlink.kind == "nvlink"
    assert nvlink.links == 18
    assert [path.cell for path in paths] == ["PIX", "PXB", "PHB", "NODE", "SYS"]
    for path in paths:
        assert path.kind == path.cell.lower()
        assert path.links == 0


def test_devices_are_grouped_by_numa_node() -> None:
    assert _detail(_node()).numa == [
        protocol.Numa(0, "0-7", ["GPU0", "NIC0"]),
        protocol.Numa(1, "", ["GPU1"]),
        protocol.Numa(None, "", ["NIC1"]),
    ]


def test_reasons_and_disputes_are_those_of_the_agent() -> None:
    found = _detail(_node())
    assert found.reasons == ["GPU 1: 17 of 18 NVLinks active"]
    assert found.disputes == ["GPU0 GPU1: NVML says PIX, sysfs PXB"]
    assert found.problem == ""


def test_data_direct_functions_are_devices_that_belong_to_nics() -> None:
    annotation = {
        "version": 1,
        "gpus": [
            {
                "index": 0,
                "uuid": "GPU-0",
                "numa": 0,
                "nics": ["mlx5_0"],
            }
        ],
        "nics": [
            {"name": "mlx5_0", "pci": "0000:01:00.0", "numa": 0},
            {
                "name": "mlx5_0",
                "pci": "0000:02:00.0",
                "numa": 0,
                "dd": True,
            },
            {"name": "", "pci": "0000:03:00.0", "dd": True},
        ],
        "matrix": ["X", "NODE X", "PXB NODE X", "SYS SYS SYS X"],
    }
    devices = _detail(_node(annotation)).devices
    assert [(device.label, device.kind, device.rails, device.nics) for device in devices] == [
        ("GPU0", "gpu", ["NIC0"], []),
        ("NIC0", "nic", [], []),
        ("DD0", "dd", [], ["NIC0"]),
        ("DD1", "dd", [], []),
    ]


def test_node_has_its_miscabled_rails() -> None:
    node = _node()
    wrong = {
        "nic": "mlx5_0",
        "switch": "leaf-1",
        "port": "Ethernet1/3",
        "expected": "leaf-2",
    }
    status = {"rails": {"miscabled": [wrong | {"node": node.name}, wrong | {"node": "another"}]}}
    topology = cluster_topology() | {"status": status}
    cluster = snapshot((node,), (), topology)
    found = detail(FullNode(node, ""), views_of(cluster), cluster, None)
    assert found.miscabled == [f"mlx5_0 of {node.name} goes to leaf-1 port Ethernet1/3, expected leaf-2"]


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        pytest.param(None, "there is no annotation gpu.topology/matrix", id="missing"),
        pytest.param("<script>alert(1)</script>", "cannot be read", id="markup"),
        pytest.param("[" * 100_000, "cannot be read", id="deep"),
        pytest.param('{"version": 2}', "has version 2", id="newer-version"),
        pytest.param({**MATRIX, "matrix": []}, "was too large for the annotation", id="without-matrix"),
        pytest.param({**MATRIX, "matrix": ["X"]}, "do not match its devices", id="short-matrix"),
        pytest.param(
            {**MATRIX, "matrix": ["X", "NVx X", "PIX SYS X", "PXB NODE PHB X"]},
            "holds the cell 'NVx'",
            id="unknown-cell",
        ),
        pytest.param(
            {**MATRIX, "matrix": ["X", "NV99999 X", "PIX SYS X", "PXB NODE PHB X"]},
            "holds the cell 'NV99999'",
            id="too-many-links",
        ),
    ],
)
def test_missing_or_malformed_annotation_is_a_problem(annotation: Any, problem: str) -> None:
    found = _detail(_node(annotation))
    assert problem in found.problem
    assert found.matrix is None
    assert found.hardware["gpus"] == "4"


SEEN = "2026-01-02T00:00:00Z"
WRITTEN = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("state", ["degraded", "ok"])
def test_node_is_in_its_state_since_it_was_seen_to_change(state: str) -> None:
    written = WRITTEN if state == "degraded" else ""
    found = _detail(_in_state(state), SEEN, written)
    assert found.since == protocol.Since(SEEN, True)


def test_degraded_node_is_in_its_state_since_its_agent_wrote() -> None:
    found = _detail(_in_state("degraded"), None, WRITTEN)
    assert found.since == protocol.Since(WRITTEN, False)


@pytest.mark.parametrize(
    ("state", "written"), [pytest.param("degraded", "", id="nobody-wrote"), pytest.param("ok", WRITTEN, id="ok")]
)
def test_since_when_a_node_is_in_its_state_may_be_unknown(state: str, written: str) -> None:
    found = _detail(_in_state(state), None, written)
    assert found.since is None


def test_free_gpus_and_missing_levels() -> None:
    zone = {"domain": "zone", "key": "topology.kubernetes.io/zone"}
    cage = {"domain": "cage", "key": "example.com/cage"}
    labels = {"topology.kubernetes.io/zone": "no-topology"}
    node = _node(**labels)
    running = pod_of(pod("a", node.name, 3))
    topology = cluster_topology(levels=[zone, cage])
    cluster = snapshot((node,), (running,), topology)
    found = detail(FullNode(node, ""), views_of(cluster), cluster, None)
    assert found.free == 1
    assert found.resources == {"nvidia.com/gpu": [4, 1]}
    assert found.shares == {}
    assert found.domains == {"cluster": []}
    without_zone, without_cage = found.lacking
    assert without_zone.level == "zone"
    assert without_zone.why == "its label topology.kubernetes.io/zone says 'no-topology'"
    assert without_cage.level == "cage"
    assert without_cage.why == "it has no label example.com/cage"


def test_last_write_is_that_of_the_agent() -> None:
    managed: list[dict[str, Any]] = [
        {"manager": "kubelet", "time": "2026-01-03T00:00:00Z"},
        {"manager": "toposcope-agent", "time": "2026-01-01T00:00:00Z"},
        {"manager": "toposcope-agent", "time": "2026-01-02T00:00:00Z"},
        {"manager": "toposcope-agent"},
        {"manager": 7},
    ]
    assert last_write(managed) == "2026-01-02T00:00:00Z"
    assert last_write([]) == ""


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("{", id="without-end"),
        pytest.param("[]", id="array"),
        pytest.param('{"gpus": 7}', id="number"),
        pytest.param("[" * 100_000, id="brackets"),
        pytest.param('{"gpus": [{}]}', id="gpu-without-uuid"),
    ],
)
def test_malformed_annotations_have_no_uuids(annotation: str | None) -> None:
    assert gpu_uuids(annotation) == ""
