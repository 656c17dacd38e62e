"""The annotation `gpu.topology/matrix`: the node's devices and link matrix as compact JSON.

    {"version":1,
     "gpus":[{"index":0,"uuid":"GPU-...","pci":"0000:1b:00.0","root":"pci0000:15","numa":0,"nics":["mlx5_0"]}],
     "nics":[{"name":"mlx5_0","pci":"0000:18:00.0","numa":0,"switch":"leaf-01","port":"Ethernet1/3"}],
     "cpus":{"0":"0-55,112-167"},
     "matrix":["X","NV18 X","PXB NODE X"],
     "reasons":["GPU 3: 17 of 18 NVLinks active"]}

`matrix` holds the lower triangle, a row a device (GPUs, then NICs): the matrix is symmetric, and half of it keeps a
node of 16 GPUs and 18 NICs under 8 KiB. A GPU's `nics` are those nearest to it, no further than PXB, and `root` is its
PCIe root complex. A device's `uuid`, `pci`, `root` and `numa` are left out when unknown. `cpus` are the CPUs of each
NUMA node that has a device, in the kernel's list format. `disputes` lists the paths that NVML and sysfs name
differently. A NIC's `switch` (its name, else its id) and `port` are those that it is cabled to, if that is known. Data
Direct functions follow the NICs with `"dd":true`, named after their NICs.
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final

from toposcope.hardware.neighbours import Neighbour, Neighbours
from toposcope.hardware.topology import NodeTopology
from toposcope.text import compact

VERSION: Final = 1
LIMIT: Final = 8192
_NAME: Final = 64
"""No UUID or device name of the kernel is longer."""
_REASONS: Final = ((16, 200), (16, 100), (8, 100))
"""How many reasons are kept, and how long they may be: the next pair when the one before does not fit."""


def annotation_for(topology: NodeTopology, neighbours: Neighbours = MappingProxyType({})) -> str:
    """The annotation's value: at most `LIMIT` bytes of ASCII, whatever the names and reasons hold.

    What does not fit is dropped in this order: disputes, switches, long reasons, then (on no known
    machine) the matrix, the NICs and the GPUs. The reasons for a degraded state are what an admin
    looks for here.
    """
    gpus = [
        _device(
            index=gpu.index,
            uuid=gpu.uuid,
            pci=gpu.address,
            root=gpu.root,
            numa=gpu.numa,
            nics=_names(gpu.rails) or None,
        )
        for gpu in topology.gpus
    ]
    document: dict[str, Any] = {
        "version": VERSION,
        "gpus": gpus,
        "nics": [
            *(
                _device(
                    name=nic.name, pci=nic.pci, numa=nic.numa, **_cabled(neighbours.get(nic.name))
                )
                for nic in topology.nics
            ),
            *(
                _device(name=" ".join(function.nics), pci=function.pci, numa=function.numa, dd=True)
                for function in topology.data_direct
            ),
        ],
        "cpus": _cpus(topology),
        "matrix": [" ".join(row[: i + 1]) for i, row in enumerate(topology.matrix.cells)],
        "disputes": [
            f"{dispute.a} {dispute.b}: NVML says {dispute.nvml}, sysfs {dispute.sysfs}"
            for dispute in topology.disputes
        ],
        "reasons": _cut(topology.reasons, *_REASONS[0]),
    }
    for optional in ("cpus", "disputes"):
        if not document[optional]:
            del document[optional]
    for smaller in _smaller(document, topology.reasons):
        text = compact(smaller)
        if len(text) <= LIMIT:
            return text
    raise AssertionError("eight short reasons always fit")


def _smaller(document: dict[str, Any], reasons: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The document, with less and less in it."""
    yield document
    document.pop("disputes", None)
    yield document
    for nic in document["nics"]:
        nic.pop("switch", None)
        nic.pop("port", None)
    yield document
    for count, length in _REASONS[1:]:
        document["reasons"] = _cut(reasons, count, length)
        yield document
    for expendable in ("cpus", "matrix", "nics", "gpus"):
        document.pop(expendable, None)
        yield document


def _cut(reasons: Sequence[str], count: int, length: int) -> list[str]:
    """At most `count` reasons, the last one about the rest; all printable ASCII and at most `length` long."""
    shown = [_plain(reason, length) for reason in reasons[:count]]
    if len(reasons) > count:
        shown[-1] = f"and {len(reasons) - count + 1} more: see the agent's log"
    return shown


def _plain(text: str, length: int) -> str:
    plain = "".join(character if " " <= character <= "~" else "?" for character in text)
    return plain if len(plain) <= length else plain[: length - 3] + "..."


def _names(names: Sequence[str]) -> list[str]:
    return [_plain(name, _NAME) for name in names]


def _cpus(topology: NodeTopology) -> dict[str, str]:
    used = {gpu.numa for gpu in topology.gpus} | {nic.numa for nic in topology.nics}
    used |= {function.numa for function in topology.data_direct}
    return {str(node.id): node.cpus for node in topology.numa if node.id in used and node.cpus}


def _cabled(neighbour: Neighbour | None) -> dict[str, str]:
    return {"switch": neighbour.switch or neighbour.id, "port": neighbour.port} if neighbour else {}


def _device(**facts: Any) -> dict[str, Any]:
    return {
        name: _plain(value, _NAME) if isinstance(value, str) else value
        for name, value in facts.items()
        if value is not None
    }
