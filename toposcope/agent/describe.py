"""What a probe, or its failure, means for the Node: labels, annotations and the sentence for the log."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from toposcope.agent import baseline
from toposcope.agent.annotation import annotation_for
from toposcope.agent.discover import discover, expected_gpus
from toposcope.agent.labels import NO_GPUS, NOTHING_KNOWN, Labels, labels_for
from toposcope.agent.nvlinks import weak_links
from toposcope.agent.raw import RawNode
from toposcope.agent.runtime import advice, withheld
from toposcope.api.label_keys import MATRIX, REFERENCE
from toposcope.topology.hardware import NodeTopology, State


class Description(NamedTuple):
    """What to publish. With a `problem` nothing is known and the annotations stay as they are."""

    labels: Labels
    topology: NodeTopology | None = None
    """None when the hardware did not answer or has no GPU."""
    annotations: Mapping[str, str] = MappingProxyType({})
    expected: int | None = None
    """GPUs on the PCI bus that NVML ought to see; None when the bus could not be read."""
    problem: str = ""
    """Why nothing is known, and what to do about it; empty when the hardware answered."""
    reason: str = ""
    """With a problem: the word that metrics count it under."""

    @property
    def sentence(self) -> str:
        """One line about the node."""
        if self.problem:
            return self.problem
        if self.topology is None:
            return "no GPUs on this node: it carries no labels of ours"
        seen = self.topology
        reasons = "".join(f"; {reason}" for reason in seen.reasons)
        return (
            f"{len(seen.gpus)} GPUs, interconnect {seen.interconnect}, fabric {seen.fabric}, shape {seen.shape}, "
            f"state {seen.state}{reasons}"
        )


def describe(raw: RawNode, node_name: str, remembered: str | None = None) -> Description:
    """What one probe says about the node; `remembered` is the annotation with the best it has shown."""
    ought = expected_gpus(raw)
    expected = len(ought) if raw.bus_visible else None
    if raw.gpus:
        topology = discover(raw)
        today = baseline.observed(topology)
        present = frozenset(function.address for function in raw.gpu_functions)
        known = baseline.best(baseline.decode(remembered), today, present)
        topology = _measured(topology, known)
        annotations = {MATRIX: annotation_for(topology), REFERENCE: baseline.encode(known)}
        return Description(labels_for(topology, node_name), topology, annotations, expected)
    down = next((fault for fault in raw.faults if fault.index is None), None)
    gone = _gone(raw, baseline.decode(remembered))
    if raw.bus_visible and not ought:
        if not gone:
            return Description(NO_GPUS, expected=0)  # no driver is missed on a node that never had any
        told = f"all GPUs of this node are gone from the PCI bus: {', '.join(gone)}; if they were taken out, accept it"
        return unknown("no-devices", f"{told} with `toposcope agent --accept-degraded`", expected)
    on_bus = ", ".join(ought.values()) or "unknown, sysfs shows no PCI bus"
    if down:
        told = f"{down.text}: {advice(down.code, raw)}"
    elif raw.faults:
        told = "; ".join(fault.text for fault in raw.faults)
    else:
        told = f"0 GPUs: {withheld(raw) or 'run `nvidia-smi` on the node; it asks the same library'}"
    reason = "nvml-unavailable" if down else "no-devices"
    return unknown(reason, f"NVML does not answer ({told}); GPUs on the PCI bus: {on_bus}", expected)


def _gone(raw: RawNode, known: baseline.Baseline | None) -> list[str]:
    """GPUs that the node has shown before and that are not even on the bus any more."""
    if known is None:
        return []
    return sorted(known.links.keys() - {function.address for function in raw.gpu_functions})


def unknown(reason: str, problem: str, expected: int | None = None) -> Description:
    """What a probe without result says: nothing, so what is published stands."""
    return Description(NOTHING_KNOWN, expected=expected, problem=problem, reason=reason)


def _measured(topology: NodeTopology, known: baseline.Baseline) -> NodeTopology:
    """The topology with what is worse than the node has shown before."""
    gpus = tuple(
        gpu._replace(links_expected=known.links[gpu.pci]) if known.links[gpu.pci] > gpu.links_expected else gpu
        for gpu in topology.gpus
    )
    told = set(weak_links(topology.gpus))
    others = [reason for reason in topology.reasons if reason not in told]
    named = " ".join(others)
    # A GPU that the bus still shows is named by a better sentence already.
    fresh = [r for r in baseline.degradations(known, topology) if not (r.endswith("is gone") and r.split()[1] in named)]
    reasons = tuple(dict.fromkeys((*others, *weak_links(gpus), *fresh)))
    worse = State.DEGRADED if reasons else State.OK
    state = topology.state if topology.state is State.UNKNOWN else worse
    return topology._replace(gpus=gpus, reasons=reasons, state=state)
