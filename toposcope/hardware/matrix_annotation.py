"""Reads the annotation `gpu.topology/matrix`: devices, link matrix, affinity, faults."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

import msgspec

from toposcope.api.label_keys import MATRIX
from toposcope.errors import ToposcopeError
from toposcope.hardware.matrix import SELF, LinkMatrix
from toposcope.hardware.pci import NEAREST_FIRST, NODE, PHB, PIX, PXB, SYS

LEGEND: Final = {
    SELF: "the device itself",
    "NV#": "# active NVLinks",
    PIX: "at most one PCIe switch between them",
    PXB: "several PCIe switches, but no CPU host bridge",
    PHB: "through the PCIe host bridge of one CPU",
    NODE: "between PCIe host bridges of one NUMA node",
    SYS: "between NUMA nodes, over the CPU interconnect",
}
"""What each cell means, best first."""

_CELL: Final = re.compile("|".join((SELF, r"NV[0-9]{1,4}", *NEAREST_FIRST)), re.ASCII)
_VERSION: Final = 1
_FAULTY: Final = re.compile(r"GPU ([0-9]+)\b")
_HOW_TO_REWRITE: Final = "remove it and the agent writes it again"


class _Gpu(msgspec.Struct, frozen=True, gc=False):
    index: int
    pci: str = ""
    uuid: str = ""
    root: str = ""
    numa: int | None = None
    nics: list[str] = []


class _Nic(msgspec.Struct, frozen=True, gc=False):
    name: str
    pci: str = ""
    numa: int | None = None
    switch: str = ""
    port: str = ""
    dd: bool = False


class _Fault(msgspec.Struct, frozen=True, gc=False):
    kind: str
    gpu: int | None = None


class _Annotation(msgspec.Struct, frozen=True, gc=False):
    version: int
    gpus: list[_Gpu] = []
    nics: list[_Nic] = []
    matrix: list[str] = []
    cpus: dict[str, str] = {}
    disputes: list[str] = []
    reasons: list[str] = []
    faults: list[_Fault] | None = None


_ANNOTATION: Final = msgspec.json.Decoder(_Annotation)


class MatrixError(ToposcopeError):
    """A node's link matrix cannot be shown; the message gives reason and remedy."""


@dataclass(frozen=True, slots=True)
class MatrixDevice:
    """One GPU or NIC, or a Data Direct function, through which a NIC (ConnectX-8) reaches GPUs.

    `cpus` is the kernel's list of the CPUs of its NUMA node. None means unknown.
    """

    label: str
    """`GPU0`, `NIC0`, `DD0`: its name in the matrix."""
    name: str
    """A GPU's UUID, a NIC's name; the names of a Data Direct function's NICs, empty if unknown."""
    pci: str
    """Empty for a GPU that is not on the PCI bus."""
    numa: int | None
    cpus: str | None
    rails: tuple[str, ...] = ()
    """GPUs only: the names of the NICs nearest to it."""
    switch: str = ""
    """NICs only: the switch that it is cabled to, and its port there; empty if unknown."""
    port: str = ""
    root: str = ""
    """GPUs only: its PCIe root complex; empty if unknown."""

    @property
    def kind(self) -> Literal["gpu", "nic", "dd"]:
        """What it is, by its label."""
        if self.label.startswith("GPU"):
            return "gpu"
        if self.label.startswith("DD"):
            return "dd"
        return "nic"

    @property
    def title(self) -> str:
        """The line that explains the label in a legend."""
        name = self.name
        if self.kind == "dd":
            nic = name or "an unknown NIC"
            name = f"{nic} data-direct function"
        title = f"{self.label}: {name}"
        if not self.pci:
            return title
        return f"{title} ({self.pci})"

    @property
    def neighbour(self) -> str:
        """Switch and port in one line."""
        return f"{self.switch} {self.port}".strip()


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A fault of one GPU."""

    label: str
    """The GPU's name in the matrix."""
    kind: str
    """The agent's name for it; empty if an earlier agent wrote the annotation."""
    reason: str
    """For people."""


@dataclass(frozen=True, slots=True)
class NodeMatrix:
    """What a node's agent wrote into the annotation.

    `links` is None if the matrix was too large for the annotation.
    """

    devices: tuple[MatrixDevice, ...]
    links: LinkMatrix | None
    disputes: tuple[str, ...]
    reasons: tuple[str, ...]
    """Why the node is degraded, one sentence each."""
    faults: tuple[GpuFault, ...]
    """The reasons that are faults of one GPU."""


def parse(annotation: str) -> NodeMatrix:
    """Parse the annotation's value. Raises MatrixError."""
    try:
        annotated = _ANNOTATION.decode(annotation)
    except UnicodeError as error:
        text = f"the annotation {MATRIX} cannot be read (it is not text); {_HOW_TO_REWRITE}"
        raise MatrixError(text) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        text = f"the annotation {MATRIX} cannot be read ({error}); {_HOW_TO_REWRITE}"
        raise MatrixError(text) from error
    if annotated.version != _VERSION:
        raise MatrixError(
            f"the annotation {MATRIX} has version {annotated.version}, "
            f"but this toposcope reads version {_VERSION}"
        )
    devices = (*_gpus(annotated), *_nics(annotated))
    return NodeMatrix(
        devices=devices,
        links=_links(devices, annotated.matrix),
        disputes=tuple(annotated.disputes),
        reasons=tuple(annotated.reasons),
        faults=tuple(_faults(annotated)),
    )


def _gpus(annotated: _Annotation) -> Iterator[MatrixDevice]:
    for gpu in annotated.gpus:
        yield MatrixDevice(
            label=f"GPU{gpu.index}",
            name=gpu.uuid,
            pci=gpu.pci,
            numa=gpu.numa,
            cpus=annotated.cpus.get(str(gpu.numa)),
            rails=tuple(gpu.nics),
            root=gpu.root,
        )


def _nics(annotated: _Annotation) -> Iterator[MatrixDevice]:
    """NICs and Data Direct functions, each numbered by themselves."""
    numbers = {"NIC": 0, "DD": 0}
    for nic in annotated.nics:
        kind = "DD" if nic.dd else "NIC"
        yield MatrixDevice(
            label=f"{kind}{numbers[kind]}",
            name=nic.name,
            pci=nic.pci,
            numa=nic.numa,
            cpus=annotated.cpus.get(str(nic.numa)),
            switch=nic.switch,
            port=nic.port,
        )
        numbers[kind] += 1


def reasons(annotation: str | None) -> tuple[str, ...]:
    """Why a node is degraded, from its annotation; empty if that is missing or unreadable."""
    if annotation is None:
        return ()
    try:
        return parse(annotation).reasons
    except MatrixError:
        return ()


def gpu_faults(annotation: str | None) -> tuple[GpuFault, ...]:
    """The faults of single GPUs, from the annotation; empty if that is missing or unreadable."""
    if annotation is None:
        return ()
    try:
        return parse(annotation).faults
    except MatrixError:
        return ()


def _faults(annotated: _Annotation) -> Iterator[GpuFault]:
    if annotated.faults is None:
        yield from _faults_in_words(annotated.reasons)
        return
    for fault, reason in zip(annotated.faults, annotated.reasons, strict=False):
        if fault.gpu is not None:
            yield GpuFault(f"GPU{fault.gpu}", fault.kind, reason)


def _faults_in_words(reasons: Sequence[str]) -> Iterator[GpuFault]:
    """The faults parsed from the reasons of an agent that wrote none as data, or had no room."""
    for reason in reasons:
        faulty = _FAULTY.match(reason)
        if faulty:
            yield GpuFault(f"GPU{faulty[1]}", "", reason)


def _links(devices: Sequence[MatrixDevice], triangle: Sequence[str]) -> LinkMatrix | None:
    """The whole matrix from its lower triangle."""
    if not triangle:
        return None
    half = [row.split() for row in triangle]
    _check_triangle(half, len(devices))

    cells = []
    for at, row in enumerate(half):
        below = half[at + 1 :]
        beyond = [other_row[at] for other_row in below]
        cells.append((*row, *beyond))
    labels = [device.label for device in devices]
    return LinkMatrix(tuple(labels), tuple(cells))


def _check_triangle(half: Sequence[Sequence[str]], size: int) -> None:
    """Raise MatrixError unless it is the lower triangle of a matrix of `size` devices."""
    lengths = list(map(len, half))
    expected_lengths = list(range(1, size + 1))
    if lengths != expected_lengths:
        raise MatrixError(
            f"the rows in the annotation {MATRIX} do not match its devices; {_HOW_TO_REWRITE}"
        )
    for cell in chain.from_iterable(half):
        if not _CELL.fullmatch(cell):
            raise MatrixError(
                f"the annotation {MATRIX} holds the cell {cell[:20]!r}, "
                f"which is no link type; {_HOW_TO_REWRITE}"
            )
