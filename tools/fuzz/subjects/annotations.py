"""Annotations that a hostile or broken node writes: read by its agent, by `toposcope` and by those who look at it."""

from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from tools.fuzz.material import spoiled, strings
from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.agent import baseline
from toposcope.api.matrix_annotation import MatrixError, NodeMatrix, parse, reasons

_MATRIX: Final[dict[str, Any]] = {
    "version": 1,
    "gpus": [
        {
            "index": 0,
            "uuid": "GPU-00000000-0000-0000-0000-000000000001",
            "pci": "0000:1b:00.0",
            "numa": 0,
            "nics": ["mlx5_0"],
        },
        {"index": 1, "uuid": "GPU-00000000-0000-0000-0000-000000000002", "pci": "0000:43:00.0", "numa": 1},
    ],
    "nics": [{"name": "mlx5_0", "pci": "0000:18:00.0", "numa": 0}],
    "cpus": {"0": "0-55,112-167", "1": "56-111"},
    "matrix": ["X", "NV18 X", "PXB SYS X"],
    "disputes": ["GPU0 GPU1: NVML says PIX, sysfs PXB"],
    "reasons": ["GPU 1: 17 of 18 NVLinks active"],
}
_REFERENCE: Final[dict[str, Any]] = {
    "version": 1,
    "product": "NVIDIA H200",
    "gpus": {"0000:1b:00.0": 18, "0000:43:00.0": 18},
    "paths": ["X", "NV18 X"],
    "fabric": True,
}


def attempt(case: Any) -> Outcome:
    """Both annotations are read, or refused as a whole."""
    text = case if isinstance(case, str) else _text(case)
    remembered = baseline.decode(text)
    if remembered is not None:
        held(baseline.decode(baseline.encode(remembered)) == remembered, "a reference does not survive its own writing")
    reasons(text)
    try:
        matrix = parse(text)
    except MatrixError as error:
        return refusal(error)
    if matrix.links is not None:
        held(len(matrix.links.cells) == len(matrix.devices), "the matrix has other devices than are named")
    if isinstance(case, dict):
        _whole(case, matrix)
    return "taken"


def _whole(document: dict[str, Any], matrix: NodeMatrix) -> None:
    """What was read is all that was written, in its order."""
    devices = [
        device.get("name", device.get("uuid", "")) for name in ("gpus", "nics") for device in document.get(name, [])
    ]
    held([device.name for device in matrix.devices] == devices, f"of the devices {devices} were read {matrix.devices}")
    for name in ("reasons", "disputes"):
        held(list(getattr(matrix, name)) == document.get(name, []), f"{name} are not those of the annotation")
    rows = document.get("matrix", [])
    cells = [] if matrix.links is None else [" ".join(row[: i + 1]) for i, row in enumerate(matrix.links.cells)]
    held(cells == [" ".join(row.split()) for row in rows], f"of the matrix {rows} was read {cells}")


def _text(document: Any) -> str:
    try:
        return msgspec.json.encode(document).decode()
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, a number that no JSON of ours holds
        return repr(document)


ANNOTATIONS: Final = Subject(
    "annotations",
    "a node's annotations are read or refused whole, by its agent and by everybody else",
    st.one_of(spoiled([_MATRIX, _REFERENCE], "X", "NV18", "SYS", "mlx5_0"), strings("{}", "[]", "{" * 60)),
    attempt,
)
