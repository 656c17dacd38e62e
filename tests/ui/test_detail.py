"""One node in full."""

import json
from typing import Any

import msgspec
import pytest
from tests.snapshot.clusters import pod_of, snapshot
from tests.support.manifests import read_manifest
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


def _detail(node: NodeView, since: str | None = None, written: str = "") -> protocol.Node:
    """What the page shows of a node that is alone in its cluster."""
    cluster = snapshot((node,))
    return detail(FullNode(node, written), views_of(cluster), cluster, since)


def test_devices_and_their_links() -> None:
    found = _detail(_node())
    devices = [(device.label, device.kind, device.name, device.numa, device.rails) for device in found.devices]
    assert devices == [
        ("GPU0", "gpu", "GPU-0", 0, ["NIC1"]),
        ("GPU1", "gpu", "", 1, []),
        ("NIC0", "nic", "mlx5_0", 0, []),
        ("NIC1", "nic", "mlx5_1", None, []),
    ]
    assert found.matrix == [
        ["X", "NV18", "PIX", "PXB"],
        ["NV18", "X", "SYS", "NODE"],
        ["PIX", "SYS", "X", "PHB"],
        ["PXB", "NODE", "PHB", "X"],
    ]
    classes = [(cell_class.cell, cell_class.kind, cell_class.links) for cell_class in found.classes]
    assert classes == [
        ("X", "self", 0),
        ("NV18", "nvlink", 18),
        ("PIX", "pix", 0),
        ("PXB", "pxb", 0),
        ("PHB", "phb", 0),
        ("NODE", "node", 0),
        ("SYS", "sys", 0),
    ]
    numa_nodes = [(numa.id, numa.cpus, numa.devices) for numa in found.numa]
    assert numa_nodes == [(0, "0-7", ["GPU0", "NIC0"]), (1, "", ["GPU1"]), (None, "", ["NIC1"])]
    assert [device.neighbour for device in found.devices] == ["", "", "leaf-1 Ethernet1/3", ""]
    assert found.nvlink_domains == [["GPU0", "GPU1"]]
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
        pytest.param({**MATRIX, "matrix": ["X"]}, "do not fit its devices", id="short-matrix"),
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
    since = _detail(_node(**{label_keys.STATE: state}), SEEN, written).since
    assert since == protocol.Since(SEEN, True)


def test_degraded_node_is_in_its_state_since_its_agent_wrote() -> None:
    since = _detail(_node(**{label_keys.STATE: "degraded"}), None, WRITTEN).since
    assert since == protocol.Since(WRITTEN, False)


@pytest.mark.parametrize(
    ("state", "written"), [pytest.param("degraded", "", id="nobody-wrote"), pytest.param("ok", WRITTEN, id="ok")]
)
def test_since_when_a_node_is_in_its_state_may_be_unknown(state: str, written: str) -> None:
    assert _detail(_node(**{label_keys.STATE: state}), None, written).since is None


def test_free_gpus_and_missing_levels() -> None:
    node = _node(**{"topology.kubernetes.io/zone": "no-topology"})
    levels = [{"domain": "zone", "key": "topology.kubernetes.io/zone"}, {"domain": "cage", "key": "example.com/cage"}]
    cluster = snapshot((node,), (pod_of(pod("a", node.name, 3)),), cluster_topology(levels=levels))
    found = detail(FullNode(node, ""), views_of(cluster), cluster, None)
    assert found.free == 1
    assert found.resources == {"nvidia.com/gpu": [4, 1]}
    assert found.shares == {}
    assert found.domains == {"cluster": []}
    assert [(level.level, level.why) for level in found.lacking] == [
        ("zone", "its label topology.kubernetes.io/zone says 'no-topology'"),
        ("cage", "it has no label example.com/cage"),
    ]


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


@pytest.mark.parametrize("annotation", [None, "", "{", "[]", '{"gpus": 7}', "[" * 100_000, '{"gpus": [{}]}'])
def test_malformed_annotations_have_no_uuids(annotation: str | None) -> None:
    assert gpu_uuids(annotation) == ""
