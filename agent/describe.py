"""What a probe, or its failure, means for the Node: labels, annotation and the sentence for the log."""

from dataclasses import dataclass

from agent.annotation import annotation_for
from agent.discover import discover
from agent.labels import NO_GPUS, NOTHING_KNOWN, Labels, labels_for
from agent.nvml import advice
from agent.raw import RawNode
from topology.hardware import NodeTopology


@dataclass(frozen=True, slots=True)
class Description:
    """What to publish. `topology` and `annotation` are None when the hardware did not answer or has no GPU."""

    labels: Labels
    topology: NodeTopology | None = None
    annotation: str | None = None
    problem: str = ""
    """Why nothing is known, and what to do about it; empty when the hardware answered."""


def describe(raw: RawNode, node_name: str) -> Description:
    """What one probe says about the node."""
    if raw.gpus:
        topology = discover(raw)
        return Description(labels_for(topology, node_name), topology, annotation_for(topology))
    down = next((fault for fault in raw.faults if fault.index is None), None)
    if down is None and not raw.gpu_functions and not raw.faults:
        return Description(NO_GPUS)
    on_bus = ", ".join(function.address for function in raw.gpu_functions) or "none"
    told = f"{down.text}: {advice(down.code)}" if down else "; ".join(fault.text for fault in raw.faults) or "0 GPUs"
    return unknown(f"NVML does not answer ({told}); GPUs on the PCI bus: {on_bus}")


def unknown(problem: str) -> Description:
    """What a probe without result says: nothing, so what is published stands."""
    return Description(NOTHING_KNOWN, problem=problem)
