"""The annotation `gpu.topology/matrix`: the node's devices and link matrix as compact JSON.

    {"version":1,
     "gpus":[{"index":0,"uuid":"GPU-...","pci":"0000:1b:00.0","numa":0,"nics":["mlx5_0"]}],
     "nics":[{"name":"mlx5_0","pci":"0000:18:00.0","numa":0}],
     "matrix":["X","NV18 X","PXB NODE X"],
     "reasons":["GPU 3: 17 of 18 NVLinks active"]}

`matrix` holds the lower triangle, a row a device (GPUs, then NICs): the matrix is symmetric, and half of it keeps a
node of 16 GPUs and 18 NICs under 8 KiB. A GPU's `nics` are those nearest to it, no further than PXB. A device's `uuid`
and `numa` are left out when unknown. `disputes` is there when NVML and sysfs name a path differently.
"""

from typing import Any, Final

import msgspec

from topology.hardware import NodeTopology

VERSION: Final = 1
LIMIT: Final = 8192
_REASONS_SHOWN: Final = 16


def annotation_for(topology: NodeTopology) -> str:
    """The annotation's value: at most `LIMIT` bytes of ASCII.

    Should a machine need more (none known does), the matrix is left out first, then the devices: the reasons for a
    degraded state are what an admin looks for here.
    """
    document: dict[str, Any] = {
        "version": VERSION,
        "gpus": [
            _device(index=gpu.index, uuid=gpu.uuid, pci=gpu.pci, numa=gpu.numa, nics=gpu.rails or None)
            for gpu in topology.gpus
        ],
        "nics": [_device(name=nic.name, pci=nic.pci, numa=nic.numa) for nic in topology.nics],
        "matrix": [" ".join(row[: i + 1]) for i, row in enumerate(topology.matrix.cells)],
        "disputes": [f"{each.a} {each.b}: NVML says {each.nvml}, sysfs {each.sysfs}" for each in topology.disputes],
        "reasons": [reason[:200] for reason in topology.reasons[:_REASONS_SHOWN]],
    }
    if not document["disputes"]:
        del document["disputes"]
    text = msgspec.json.encode(document)
    for expendable in ("disputes", "matrix", "nics", "gpus"):
        if len(text) <= LIMIT:
            break
        document.pop(expendable, None)
        text = msgspec.json.encode(document)
    return text.decode()


def _device(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
