"""What is broken on a simulated machine: GPUs, links, and NVML calls that fail, hang or crash.

A fault file is YAML; every field is optional:

    init_error: 9                 # nvmlInit fails with this NVML error
    lost: [2]                     # GPU indices whose handle answers "GPU is lost"
    vanished: [5]                 # GPU indices that have left the bus: the count drops
    links_down: {0: [3, 4], 1: all}
    fabric: {0: {state: 2}}       # also: status, clique, health_mask, health_summary (NVML's numbers)
    calls:                        # the first that matches counts; without `gpu`: for every GPU
      - {call: nvmlDeviceGetP2PStatus, gpu: 0, error: 15}
      - {call: nvmlDeviceGetNvLinkState, hang: true}
      - {call: nvmlDeviceGetCount, crash: true}
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from toposcope.simulator.document import DocumentError, Section, read_yaml

_FABRIC_FIELDS: Final = ("state", "status", "clique", "health_mask", "health_summary")


class FaultError(DocumentError):
    """A fault description that cannot be used; the message names the field and the fix."""


class Misbehaviour(Enum):
    """Ways of not answering at all."""

    HANG = "hang"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class CallFault:
    """One NVML function that goes wrong: `outcome` is an NVML error code or a way of not answering."""

    call: str
    outcome: int | Misbehaviour
    gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one machine. GPU numbers are positions in `Machine.gpus`."""

    init_error: int | None = None
    lost: frozenset[int] = frozenset()
    vanished: frozenset[int] = frozenset()
    links_down: Mapping[int, frozenset[int] | None] = field(default_factory=dict)
    """GPU to its dead links; None: all of them."""
    fabric: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """GPU to the fields of `machine.Fabric` that differ."""
    calls: tuple[CallFault, ...] = ()

    @property
    def gpus(self) -> frozenset[int]:
        """Every GPU that a fault names."""
        called = {fault.gpu for fault in self.calls if fault.gpu is not None}
        return self.lost | self.vanished | called | set(self.links_down) | set(self.fabric)

    def outcome(self, call: str, gpu: int | None) -> int | Misbehaviour | None:
        """What goes wrong when `call` is made for a GPU (None: for no GPU in particular)."""
        return next((fault.outcome for fault in self.calls if fault.call == call and fault.gpu in (None, gpu)), None)

    def link_down(self, gpu: int, link: int) -> bool:
        """Whether this end of a link is dead."""
        dead = self.links_down.get(gpu, frozenset())
        return dead is None or link in dead


def load_faults(path: Path) -> Faults:
    """Read a fault file. Raises FaultError, FileNotFoundError."""
    return faults_from(Section(read_yaml(path, FaultError), path.name, FaultError))


def faults_from(section: Section) -> Faults:
    """The faults that a section of a document describes. Raises the section's kind of error."""
    fabric: dict[int, dict[str, int]] = {}
    for gpu, value in section.by_number("fabric").items():
        inner = section.inner(value, f"fabric.{gpu}")
        fabric[gpu] = {name: inner.integer(name) for name in _FABRIC_FIELDS if name in inner}
        inner.finish()
    faults = Faults(
        init_error=section.integer("init_error") if "init_error" in section else None,
        lost=frozenset(section.integers("lost")),
        vanished=frozenset(section.integers("vanished")),
        links_down=links_by_gpu(section, "links_down"),
        fabric=fabric,
        calls=tuple(_call_fault(inner) for inner in section.sections("calls")),
    )
    section.finish()
    return faults


def links_by_gpu(section: Section, name: str) -> dict[int, frozenset[int] | None]:
    """A field that maps GPU numbers to lists of link numbers, or to `all`: that is None here."""
    dead: dict[int, frozenset[int] | None] = {}
    for gpu, links in section.by_number(name).items():
        if links != "all" and not (isinstance(links, list) and all(type(link) is int for link in links)):
            raise section.error(f"{name}.{gpu}", f"is {links!r}, write a list of link numbers or `all`")
        dead[gpu] = None if links == "all" else frozenset(links)
    return dead


def _call_fault(section: Section) -> CallFault:
    call = section.text("call")
    gpu = section.integer("gpu") if "gpu" in section else None
    outcomes: list[int | Misbehaviour] = [way for way in Misbehaviour if section.boolean(way.value, default=False)]
    if "error" in section:
        outcomes.append(section.integer("error"))
    if len(outcomes) != 1:
        raise section.error("error", "give exactly one of `error: <NVML code>`, `hang: true`, `crash: true`")
    section.finish()
    return CallFault(call, outcomes[0], gpu)
