"""What a probe, or its failure, means for the Node: labels, annotations and a line for the log."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from toposcope.agent import baseline
from toposcope.agent.annotation import annotation_for
from toposcope.agent.container_runtime import advice, withheld
from toposcope.agent.discover import discover, expected_gpus
from toposcope.agent.labels import NO_GPUS, NOTHING_KNOWN, Labels, labels_for
from toposcope.agent.nvlinks import weak_links
from toposcope.agent.raw import RawNode
from toposcope.api.label_keys import MATRIX, REFERENCE
from toposcope.topology.hardware import NodeTopology, State


class Description(NamedTuple):
    """What to publish. With a `problem` nothing is known, and the annotations stay as they are."""

    labels: Labels
    topology: NodeTopology | None = None
    """None when the hardware did not answer or has no GPU."""
    annotations: Mapping[str, str] = MappingProxyType({})
    expected: int | None = None
    """GPUs on the PCI bus that NVML should see; None when the bus could not be read."""
    problem: str = ""
    """Why nothing is known, and what to do about it; empty when the hardware answered."""
    reason: str = ""
    """With a problem: the reason that metrics count it under."""

    @property
    def sentence(self) -> str:
        """One line about the node."""
        if self.problem:
            return self.problem
        if self.topology is None:
            return "no GPUs on this node: it gets no labels"
        topology = self.topology
        facts = f"interconnect {topology.interconnect}, fabric {topology.fabric}, shape {topology.shape}"
        return "; ".join((f"{len(topology.gpus)} GPUs, {facts}, state {topology.state}", *topology.reasons))


def describe(raw: RawNode, node_name: str, baseline_text: str | None = None) -> Description:
    """What one probe means for the node; `baseline_text` is the annotation with the best that the node has shown."""
    expected_names = expected_gpus(raw)
    expected = len(expected_names) if raw.bus_visible else None
    present = frozenset(function.address for function in raw.gpu_functions)
    past = baseline.decode(baseline_text)
    if raw.gpus:
        topology = discover(raw)
        if not raw.nvlinks_read:  # nothing that a baseline could hold, or be compared with
            matrix = {MATRIX: annotation_for(topology)}
            return Description(labels_for(topology, node_name), topology, matrix, expected)
        best = baseline.best(past, baseline.observed(topology), present)
        topology = _compared(topology, best)
        annotations = {MATRIX: annotation_for(topology), REFERENCE: baseline.encode(best)}
        return Description(labels_for(topology, node_name), topology, annotations, expected)
    if raw.bus_visible and not expected_names:
        gone = sorted(past.links.keys() - present) if past else []
        if not gone:
            return Description(NO_GPUS, expected=0)  # a node that never had a GPU needs no driver
        remedy = "if they were taken out, accept it with `toposcope agent --accept-degraded`"
        return unknown("no-devices", f"all GPUs of this node are gone from the PCI bus: {', '.join(gone)}; {remedy}", 0)
    on_bus = ", ".join(expected_names.values()) or "unknown, sysfs shows no PCI bus"
    if raw.down:
        why = f"{raw.down.text}: {advice(raw.down.code, raw)}"
    elif raw.faults:
        why = "; ".join(fault.text for fault in raw.faults)
    else:
        why = f"0 GPUs: {withheld(raw) or 'run `nvidia-smi` on the node; it asks the same library'}"
    reason = "nvml-unavailable" if raw.down else "no-devices"
    return unknown(reason, f"NVML does not answer ({why}); GPUs on the PCI bus: {on_bus}", expected)


def unknown(reason: str, problem: str, expected: int | None = None) -> Description:
    """The description after a probe without a result: what is published stays."""
    return Description(NOTHING_KNOWN, expected=expected, problem=problem, reason=reason)


def _compared(topology: NodeTopology, best: baseline.Baseline) -> NodeTopology:
    """The topology with what is worse than the node has shown before."""
    gpus = tuple(gpu._replace(links_expected=max(best.links[gpu.pci], gpu.links_expected)) for gpu in topology.gpus)
    weak_today = set(weak_links(topology.gpus))  # named again below, against the past
    others = [reason for reason in topology.reasons if reason not in weak_today]
    named = " ".join(others)
    # A GPU that the bus still shows is named by a better sentence already.
    new = [r for r in baseline.degradations(best, topology) if not (r.endswith("is gone") and r.split()[1] in named)]
    worse = (*weak_links(gpus), *new)
    state = State.DEGRADED if worse and topology.state is State.OK else topology.state
    return topology._replace(gpus=gpus, reasons=tuple(dict.fromkeys((*others, *worse))), state=state)
