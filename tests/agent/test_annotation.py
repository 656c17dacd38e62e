import json
from pathlib import Path

import pytest

from tests.support.machines import discovered
from toposcope.agent.annotation import LIMIT, annotation_for
from toposcope.simulator.profile import load_profile
from toposcope.topology.hardware import NodeTopology, PathDispute
from toposcope.topology.matrix import LinkMatrix


def test_it_tells_devices_matrix_and_reasons(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    document = json.loads(annotation_for(topology._replace(reasons=("GPU 3: 17 of 18 NVLinks active",))))
    assert document["version"] == 1
    assert document["gpus"][3]["pci"] == topology.gpus[3].pci
    assert document["nics"][1] == {"name": "mlx5_1", "pci": topology.nics[1].pci, "numa": 1}
    assert document["matrix"] == [
        "X",
        "NODE X",
        "SYS SYS X",
        "SYS SYS NODE X",
        "SYS SYS NODE NODE X",
        "SYS SYS NODE NODE PIX X",
    ]
    assert document["reasons"] == ["GPU 3: 17 of 18 NVLinks active"]


def machine(gpus: int, nics: int, folder: Path) -> NodeTopology:
    base = discovered(load_profile("dgx-h200"), folder)
    names = tuple(f"GPU{i}" for i in range(gpus)) + tuple(f"NIC{i}" for i in range(nics))
    cells = tuple(tuple("X" if i == j else "NV18" for j in range(len(names))) for i in range(len(names)))
    return base._replace(
        gpus=tuple(base.gpus[0]._replace(index=i, rails=("mlx5_bond_10",)) for i in range(gpus)),
        nics=tuple(base.nics[0]._replace(name=f"mlx5_bond_{i}") for i in range(nics)),
        matrix=LinkMatrix(names, cells),
        reasons=tuple(f"GPU {i}: 17 of 18 NVLinks active" for i in range(gpus)),
    )


def test_16_gpus_and_18_nics_fit_with_everything(tmp_path: Path) -> None:
    text = annotation_for(machine(16, 18, tmp_path))
    assert len(text.encode()) <= LIMIT
    assert len(json.loads(text)["matrix"]) == 34


def test_a_monster_keeps_its_reasons(tmp_path: Path) -> None:
    text = annotation_for(machine(64, 128, tmp_path))
    assert len(text.encode()) <= LIMIT
    assert json.loads(text)["reasons"]


def hostile(topology: NodeTopology, text: str) -> NodeTopology:
    """The same node, with this in every name and reason."""
    return topology._replace(
        gpus=tuple(gpu._replace(uuid=f"GPU-{text}", rails=(text,)) for gpu in topology.gpus),
        nics=tuple(nic._replace(name=text) for nic in topology.nics),
        reasons=tuple(f"{i} {text}" for i in range(40)),
    )


def test_16_gpus_and_18_nics_keep_their_matrix_beside_long_reasons(tmp_path: Path) -> None:
    base = machine(16, 18, tmp_path)
    text = annotation_for(base._replace(reasons=tuple(f"GPU {i}: " + "long words " * 30 for i in range(16))))
    document = json.loads(text)
    assert len(text.encode()) <= LIMIT
    assert len(document["matrix"]) == 34
    assert document["reasons"][0].startswith("GPU 0: long words")
    assert document["reasons"][0].endswith("...")


@pytest.mark.parametrize("text", ["\u2603" * 400, "\x00\x1b\x7f" * 200, '"\\' * 300, "\ufffd" * 64, "\U0001f600" * 99])
def test_hostile_names_and_reasons_stay_within_the_limit_and_ascii(text: str, tmp_path: Path) -> None:
    value = annotation_for(hostile(machine(16, 18, tmp_path), text))
    assert len(value.encode()) <= LIMIT
    assert value.isascii()
    reasons = json.loads(value)["reasons"]
    assert reasons[0].startswith("0 ")
    assert reasons[-1].startswith("and ")


def test_reasons_that_are_left_out_are_counted(tmp_path: Path) -> None:
    base = machine(8, 2, tmp_path)
    reasons = json.loads(annotation_for(base._replace(reasons=tuple(f"reason {i}" for i in range(20)))))["reasons"]
    assert reasons[14:] == ["reason 14", "and 5 more: see the agent's log"]


def test_disputes_go_before_anything_else(tmp_path: Path) -> None:
    base = machine(16, 18, tmp_path)
    disputes = tuple(PathDispute(f"GPU{i}", f"GPU{j}", "SYS", "NODE") for i in range(16) for j in range(i))
    assert "disputes" in json.loads(annotation_for(base._replace(disputes=disputes[:3])))
    document = json.loads(annotation_for(base._replace(disputes=disputes)))
    assert "disputes" not in document
    assert {"gpus", "nics", "matrix", "reasons"} <= document.keys()
