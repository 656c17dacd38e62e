"""NCCL's topology file of one node."""

from typing import Final

from toposcope.api.label_keys import INTERCONNECT
from toposcope.hardware.matrix_annotation import MatrixError, parse
from toposcope.integrations.framework.export import (
    ExportedFile,
    ExportedNode,
    ExportFlag,
    ExportOptions,
    NodeFormat,
)
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.nccl import topology

_ARCH: Final = "kubernetes.io/arch"


def _write(node: ExportedNode, options: ExportOptions) -> ExportedFile:
    """The file. Raises ExportError."""
    try:
        file = topology.write(
            node.name,
            parse(node.matrix),
            node.labels.get(INTERCONNECT),
            node.labels.get(_ARCH),
            options.pcie_gen,
        )
    except MatrixError as error:
        raise ExportError(f"node {node.name}: {error}") from error

    notes = [f"unknown: {fact}" for fact in file.unknown]
    return ExportedFile(file.text, tuple(notes))


FORMATS: Final = (
    NodeFormat(
        name="nccl",
        variants=("xml",),
        write=_write,
        flags=(
            ExportFlag(
                field="pcie_gen",
                choices=tuple(topology.SPEEDS),
                help="PCIe generation of all x16 links",
            ),
        ),
    ),
)
