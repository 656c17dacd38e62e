import json
from dataclasses import replace
from pathlib import Path

from agent.annotation import LIMIT, annotation_for
from simulator.profile import load_profile
from tests.support.machines import discovered
from topology.hardware import NodeTopology
from topology.matrix import LinkMatrix


def test_it_tells_devices_matrix_and_reasons(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    document = json.loads(annotation_for(replace(topology, reasons=("GPU 3: 17 of 18 NVLinks active",))))
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
    return replace(
        base,
        gpus=tuple(replace(base.gpus[0], index=i, rails=("mlx5_bond_10",)) for i in range(gpus)),
        nics=tuple(replace(base.nics[0], name=f"mlx5_bond_{i}") for i in range(nics)),
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
