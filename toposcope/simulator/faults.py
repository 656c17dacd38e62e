"""What is broken on a simulated machine: GPUs, links, and NVML calls that fail, hang or crash.

A fault file (`--faults FILE`) is YAML; every field is optional:

    init_error: 9                 # nvmlInit fails with this NVML error
    lost: [2]                     # GPU indices whose handle answers "GPU is lost"
    vanished: [5]                 # GPU indices that have left the bus: the count drops
    links_down: {0: [3, 4], 1: all}
    fabric: {0: {state: 2}}       # also: status, clique, health_mask, health_summary
    calls:                        # the first match counts; without `gpu`: for every GPU
      - {call: nvmlDeviceGetP2PStatus, gpu: 0, error: 15}
      - {call: nvmlDeviceGetNvLinkState, hang: true}
      - {call: nvmlDeviceGetCount, crash: true}
      - {call: nvmlDeviceGetFieldValues, gpu: 3, field: 91, error: 3}  # one field of the call
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from toposcope.simulator.document import DocumentError, DocumentPart, Number, read_document

LinksByGpu = Mapping[Number, frozenset[Number] | Literal["all"]]
"""GPU to some of its links."""
_FabricField = Literal["state", "status", "clique", "health_mask", "health_summary"]


_FIELD_VALUES: Final = "nvmlDeviceGetFieldValues"


class FaultError(DocumentError):
    """A fault description that cannot be used; the message names the field and the fix."""


class CallFault(DocumentPart):
    """One NVML function that fails or does not answer, for one GPU or for every one.

    With a `field`, one entry of nvmlDeviceGetFieldValues gets the error, and the call as a whole
    succeeds.
    """

    call: str
    error: Number | None = None
    gpu: Number | None = None
    field: Number | None = None
    hang: bool = False
    crash: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError unless the call fails in exactly one way."""
        ways = [self.error is not None, self.hang, self.crash]
        if ways.count(True) != 1:
            raise ValueError(
                "give exactly one of `error: <NVML code>`, `hang: true`, `crash: true`"
            )

        if self.field is None:
            return
        if self.call != _FIELD_VALUES or self.error is None:
            raise ValueError(f"field: goes with `call: {_FIELD_VALUES}` and an `error`")


class MachineFaults(DocumentPart):
    """The faults of one machine. GPU numbers are positions in `Machine.gpus`."""

    init_error: Number | None = None
    lost: frozenset[Number] = frozenset()
    vanished: frozenset[Number] = frozenset()
    links_down: LinksByGpu = msgspec.field(default_factory=dict)
    fabric: Mapping[Number, Mapping[_FabricField, Number]] = msgspec.field(default_factory=dict)
    """GPU to the fields of `machine.Fabric` that differ."""
    calls: tuple[CallFault, ...] = ()

    @property
    def gpus(self) -> frozenset[int]:
        """Every GPU that a fault names."""
        named = {*self.lost, *self.vanished, *self.links_down, *self.fabric}
        for fault in self.calls:
            if fault.gpu is not None:
                named.add(fault.gpu)
        return frozenset(named)

    def of(self, call: str, gpu: int | None) -> CallFault | None:
        """What goes wrong when `call` is made for a GPU (None: for no GPU in particular)."""
        for fault in self.calls:
            if fault.field is not None or fault.call != call:
                continue
            if fault.gpu in (None, gpu):
                return fault
        return None

    def field_error(self, field: int, gpu: int) -> int | None:
        """The NVML error of one field of a GPU; None: it answers."""
        for fault in self.calls:
            if fault.field == field and fault.gpu in (None, gpu):
                return fault.error
        return None

    def is_link_down(self, gpu: int, link: int) -> bool:
        """Whether this end of a link is dead."""
        dead = self.links_down.get(gpu, frozenset())
        return dead == "all" or link in dead


def load_faults(path: Path) -> MachineFaults:
    """Read a fault file. Raises FaultError, FileNotFoundError."""
    return read_document(path, MachineFaults, FaultError)
