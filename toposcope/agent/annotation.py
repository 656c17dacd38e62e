"""The annotation `gpu.topology/matrix`: the node's devices and link matrix as compact JSON.

    {"version":1,
     "gpus":[{"index":0,"uuid":"GPU-...","pci":"0000:1b:00.0","root":"pci0000:15","numa":0,
              "nics":["mlx5_0"]}],
     "nics":[{"name":"mlx5_0","pci":"0000:18:00.0","numa":0,
              "switch":"leaf-01","port":"Ethernet1/3"}],
     "cpus":{"0":"0-55,112-167"},
     "matrix":["X","NV18 X","PXB NODE X"],
     "reasons":["GPU 3: 17 of 18 NVLinks active"],
     "faults":[{"kind":"links-down","gpu":3}]}

`matrix` holds the lower triangle, a row a device (GPUs, then NICs): the matrix is symmetric, and
half of it keeps a node of 16 GPUs and 18 NICs under 8 KiB. A GPU's `nics` are those nearest to it,
no further than PXB, and `root` is its PCIe root complex. A device's `uuid`, `pci`, `root` and
`numa` are left out when unknown. `cpus` are the CPUs of each NUMA node that has a device, in the
kernel's list format. `disputes` lists the paths that NVML and sysfs name differently. A NIC's
`switch` (its name, else its id) and `port` are those that it is cabled to, if that is known. Data
Direct functions follow the NICs with `"dd":true`, named after their NICs. `faults` tell programs
what the first of the `reasons` are about, in their order; the other reasons are no faults.
"""

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final

from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.neighbours import Neighbours
from toposcope.hardware.topology import DataDirect, Gpu, Nic, NodeTopology, PathDispute
from toposcope.text import compact

VERSION: Final = 1
LIMIT_BYTES: Final = 8192
_MOST_NAME_CHARACTERS: Final = 64
"""No UUID or device name of the kernel is longer."""
_REASONS: Final = ((16, 200), (16, 100), (8, 100))
"""How many reasons are kept, and how long they may be.

The next pair when the one before does not fit.
"""
_UNPRINTABLE: Final = re.compile(r"[^ -~]")


def annotation_for(topology: NodeTopology, neighbours: Neighbours = MappingProxyType({})) -> str:
    """The annotation's value: at most `LIMIT` bytes of ASCII, whatever the names and reasons hold.

    What does not fit is dropped in this order: faults, disputes, switches, long reasons, then (on
    no known machine) the matrix, the NICs and the GPUs. The reasons for a degraded state are what
    an admin looks for here.
    """
    document: dict[str, Any] = {
        "version": VERSION,
        "gpus": [_gpu(gpu) for gpu in topology.gpus],
        "nics": _nics(topology, neighbours),
    }
    cpus = _cpus(topology)
    if cpus:
        document["cpus"] = cpus
    document["matrix"] = _triangle(topology.matrix)
    if topology.disputes:
        document["disputes"] = [_dispute(dispute) for dispute in topology.disputes]
    document["reasons"] = _cut(topology.reasons, *_REASONS[0])
    if topology.reasons:
        document["faults"] = _faults(topology)
    for smaller in _smaller(document, topology.reasons):
        text = compact(smaller)
        if len(text) <= LIMIT_BYTES:
            return text
    raise AssertionError("eight short reasons always fit")


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return _device(
        index=gpu.index,
        uuid=gpu.uuid,
        pci=gpu.address,
        root=gpu.root,
        numa=gpu.numa,
        nics=[_plain(name, _MOST_NAME_CHARACTERS) for name in gpu.rails] or None,
    )


def _nics(topology: NodeTopology, neighbours: Neighbours) -> list[dict[str, Any]]:
    """The NICs, and after them the Data Direct functions."""
    devices = []
    for nic in topology.nics:
        device = _device(name=nic.name, pci=nic.pci, numa=nic.numa)
        neighbour = neighbours.get(nic.name)
        if neighbour:
            cable = _device(switch=neighbour.switch or neighbour.id, port=neighbour.port)
            device.update(cable)
        devices.append(device)
    for function in topology.data_direct:
        names = " ".join(function.nics)
        devices.append(_device(name=names, pci=function.pci, numa=function.numa, dd=True))
    return devices


def _triangle(matrix: LinkMatrix) -> list[str]:
    """The lower triangle, a row a device."""
    rows = []
    for number, cells in enumerate(matrix.cells, 1):
        rows.append(" ".join(cells[:number]))
    return rows


def _dispute(dispute: PathDispute) -> str:
    devices = f"{dispute.a} {dispute.b}"
    return f"{devices}: NVML says {dispute.nvml}, sysfs {dispute.sysfs}"


def _faults(topology: NodeTopology) -> list[dict[str, Any]]:
    """The faults of the reasons that are shown; none where only others are."""
    count, _ = _REASONS[0]
    if len(topology.reasons) > count:
        count -= 1  # the last one is about the rest
    return [_device(kind=fault.kind, gpu=fault.gpu) for fault in topology.faults[:count]]


def _smaller(document: dict[str, Any], reasons: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The document, with less and less in it."""
    yield document
    document.pop("faults", None)
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
    """At most `count` reasons, the last one about the rest.

    All are printable ASCII and at most `length` long.
    """
    shown = []
    for reason in reasons[:count]:
        shown.append(_plain(reason, length))
    more = len(reasons) - count + 1
    if more > 1:
        shown[-1] = f"and {more} more: see the agent's log"
    return shown


def printable_ascii(text: str) -> str:
    """The text with a question mark for each other character."""
    return _UNPRINTABLE.sub("?", text)


def _plain(text: str, length: int) -> str:
    plain = printable_ascii(text)
    if len(plain) <= length:
        return plain
    return plain[: length - 3] + "..."


def _cpus(topology: NodeTopology) -> dict[str, str]:
    """The CPUs of each NUMA node that has a device."""
    devices: list[Gpu | Nic | DataDirect] = []
    devices += topology.gpus
    devices += topology.nics
    devices += topology.data_direct
    used = {device.numa for device in devices}
    cpus = {}
    for node in topology.numa:
        if node.id in used and node.cpus:
            cpus[str(node.id)] = node.cpus
    return cpus


def _device(**facts: Any) -> dict[str, Any]:
    """What is known of a device."""
    facts_known = {}
    for name, value in facts.items():
        if isinstance(value, str):
            facts_known[name] = _plain(value, _MOST_NAME_CHARACTERS)
        elif value is not None:
            facts_known[name] = value
    return facts_known
