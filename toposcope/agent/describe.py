"""What a probe, or its failure, means for the Node: labels, annotations and a line for the log."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from toposcope.agent import baseline
from toposcope.agent.annotation import annotation_for
from toposcope.agent.container_runtime import advice, withheld
from toposcope.agent.discover import (
    Examination,
    conclude,
    examine,
    expected_gpus,
    expecting,
    missing_gpus,
    weak_links,
)
from toposcope.agent.faults import Fault, FaultKind, acceptable, kind_of, renewed, unaccepted
from toposcope.agent.labels import NO_GPUS, NOTHING_KNOWN, Labels, labels_for
from toposcope.agent.raw import RawNode
from toposcope.api.label_keys import INTERCONNECT, MATRIX, REFERENCE, SHAPE
from toposcope.hardware.topology import Fabric, Fact, Gpu, NodeTopology
from toposcope.text import plural


class Description(NamedTuple):
    """What to publish. With a `problem` nothing is known, and the annotations stay unchanged."""

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
        count = len(topology.gpus)
        gpus = f"{count} {plural(count, 'GPU')}"
        facts = (
            f"{gpus}, interconnect {self._label(INTERCONNECT)}, fabric {topology.fabric}, "
            f"shape {self._label(SHAPE)}, state {topology.state}"
        )
        return "; ".join([facts, *topology.reasons])

    def _label(self, key: str) -> str:
        return self.labels.by_key.get(key, "unknown")


def describe(
    raw: RawNode, node_name: str, baseline_text: str | None = None, *, is_accepting: bool = False
) -> Description:
    """What one probe means for the node.

    `baseline_text` is the annotation with the best that the node has shown. `is_accepting` makes
    the present state the baseline, with all that is wrong with it.
    """
    past = None if is_accepting else baseline.decode(baseline_text)
    if raw.gpus:
        return _described(raw, node_name, past, is_accepting=is_accepting)
    return _without_gpus(raw, past, is_accepting=is_accepting)


def _described(
    raw: RawNode, node_name: str, past: baseline.Baseline | None, *, is_accepting: bool
) -> Description:
    """What a probe that found GPUs means."""
    examination = examine(raw)
    compared = baseline.compare(past, examination.topology, examination.absent)
    if is_accepting:
        compared = compared._replace(baseline=compared.baseline._replace(accepted=frozenset()))
    topology = _forgotten_links(examination, compared.baseline)
    gpus = []
    for position, gpu in enumerate(topology.gpus):
        gpus.append(expecting(gpu, _expected(position, gpu, examination, compared)))
    topology = topology._replace(gpus=tuple(gpus))
    faults = [
        *examination.faults,
        *weak_links(gpus),
        *baseline.degradations(compared, topology, examination.trained_off),
    ]
    if is_accepting:
        accepted: frozenset[str] | None = acceptable(faults)
    else:
        accepted = _still_accepted(compared.baseline, faults, examination, raw)
    topology = conclude(topology, faults, examination.notes, accepted)
    annotations = {MATRIX: annotation_for(topology)}
    if raw.has_read_nvlinks:
        annotations[REFERENCE] = baseline.encode(compared.baseline._replace(accepted=accepted))
    return Description(
        labels=labels_for(topology, node_name),
        topology=topology,
        annotations=annotations,
        expected=_on_bus(raw),
    )


def _without_gpus(
    raw: RawNode, past: baseline.Baseline | None, *, is_accepting: bool
) -> Description:
    """What a probe that found no GPU means: the node has none, or NVML does not show them."""
    if raw.is_bus_visible and not expected_gpus(raw) and not _is_off_the_bus(raw):
        return _none_on_bus(raw, past)
    accepted = _accepted_without(raw, past, is_accepting=is_accepting)
    if accepted:
        return accepted
    return unknown(
        "nvml-unavailable" if raw.down else "no-devices",
        f"NVML does not answer ({_silence(raw)}); GPUs on the PCI bus: {_names_on_bus(raw)}",
        _on_bus(raw),
    )


def _none_on_bus(raw: RawNode, past: baseline.Baseline | None) -> Description:
    """A node without GPUs, or one that had some."""
    gone = set(past.links) if past else set()
    for function in raw.gpu_functions:
        gone.discard(function.address)
    if not gone:
        return Description(NO_GPUS, expected=0)  # a node that never had a GPU needs no driver
    return unknown(
        "no-devices",
        f"all GPUs of this node are gone from the PCI bus: {', '.join(sorted(gone))}; "
        "if they were removed on purpose, accept it with `toposcope agent --accept-degraded`",
        0,
    )


def _names_on_bus(raw: RawNode) -> str:
    if not raw.is_bus_visible:
        return "unknown, sysfs shows no PCI bus"
    return ", ".join(expected_gpus(raw).values()) or "none"


def _silence(raw: RawNode) -> str:
    """Why NVML shows no GPU, and what to do about it."""
    if raw.down:
        return f"{raw.down.text}: {advice(raw.down.code, raw)}"
    if raw.faults:
        return "; ".join([fault.text for fault in raw.faults])
    return f"0 GPUs: {withheld(raw) or 'run `nvidia-smi` on the node; it asks the same library'}"


def _accepted_without(
    raw: RawNode, past: baseline.Baseline | None, *, is_accepting: bool
) -> Description | None:
    """A node none of whose GPUs is in NVML, as an admin accepts it.

    The driver ignores its card, or excludes it.
    """
    faults = missing_gpus(raw)
    if raw.down or not raw.is_bus_visible or not faults:
        return None
    accepted: frozenset[str] | None = None
    if is_accepting:
        accepted = acceptable(faults)
    elif past:
        accepted = past.accepted
    has_links = past is not None and bool(past.links)
    if accepted is None or has_links or unaccepted(faults, accepted):
        return None
    remembered = baseline.Baseline(product=None, links={}, paths={}, accepted=accepted)
    return Description(
        NO_GPUS, annotations={REFERENCE: baseline.encode(remembered)}, expected=_on_bus(raw)
    )


def _on_bus(raw: RawNode) -> int | None:
    return len(expected_gpus(raw)) if raw.is_bus_visible else None


def _forgotten_links(examination: Examination, best: baseline.Baseline) -> NodeTopology:
    """The topology with its open questions.

    A GPU without any link, that had some before, has some that NVML hides.
    """
    topology = examination.topology
    unknown = set(topology.unknown)
    gpus = []
    for gpu in topology.gpus:
        had_some = best.links.get(gpu.pci, 0) > 0
        if had_some and not gpu.links and gpu.pci not in examination.trained_off:
            unknown.add(Fact.NVLINKS)
            gpus.append(gpu._replace(links_known=False))
        else:
            gpus.append(gpu)
    return topology._replace(gpus=tuple(gpus), unknown=frozenset(unknown))


def _expected(
    position: int, gpu: Gpu, examination: Examination, compared: baseline.Comparison
) -> int:
    """NVLinks that a GPU should have up.

    The node's baseline says it, and its board unless the baseline was accepted.
    """
    if gpu.pci in examination.trained_off:
        return 0
    best = compared.baseline
    dark = {*examination.trained_off, *examination.absent, *compared.gone}
    to_dark = baseline.links_to(best, gpu.pci, dark)
    most = best.links.get(gpu.pci, 0)
    before = most - to_dark
    is_known = gpu.pci in best.links
    if is_known and best.accepted is not None:
        return before

    by_board = examination.wired[position] or 0
    return max(before, by_board)


def _still_accepted(
    best: baseline.Baseline, faults: Sequence[Fault], examination: Examination, raw: RawNode
) -> frozenset[str] | None:
    """The keys of the accepted faults that have not healed.

    None: this node's state was not accepted.
    """
    if best.accepted is None:
        return None
    accepted = _renumbered(best, faults, raw)
    return accepted & (acceptable(faults) | _undecided(accepted, examination, raw))


def _renumbered(best: baseline.Baseline, faults: Sequence[Fault], raw: RawNode) -> frozenset[str]:
    """The accepted keys by today's addresses.

    NVML tells no UUID of a GPU that it does not list. So as many GPUs as have left the addresses at
    which they were accepted may be missing at others, of which the baseline knows nothing.
    """
    accepted = renewed(best.accepted or frozenset(), faults)
    if not raw.is_bus_visible:
        return accepted
    came = set()
    for fault in faults:
        is_known = fault.subject in best.links or fault.key in accepted
        if fault.kind is FaultKind.GPU_ABSENT and not is_known:
            came.add(fault.key)
    emptied = _emptied_addresses(accepted, raw)
    if not 0 < len(came) <= len(emptied):
        return accepted
    return (accepted - emptied) | came


def _emptied_addresses(accepted: frozenset[str], raw: RawNode) -> set[str]:
    """The accepted keys of GPUs that are no longer at the address in the key."""
    on_bus = {function.address for function in raw.gpu_functions}
    emptied = set()
    for key in accepted:
        kind, _, address = key.partition(":")
        if kind == FaultKind.GPU_ABSENT and address not in on_bus:
            emptied.add(key)
    return emptied


def _undecided(accepted: frozenset[str], examination: Examination, raw: RawNode) -> frozenset[str]:
    """The accepted faults of which this probe does not tell whether they have healed."""
    kinds = set()
    if examination.topology.fabric is Fabric.IN_PROGRESS or examination.absent:
        kinds.add(FaultKind.FABRIC)
    if not raw.is_bus_visible:
        kinds.add(FaultKind.GPU_ABSENT)
    return frozenset([key for key in accepted if kind_of(key) in kinds])


def _is_off_the_bus(raw: RawNode) -> bool:
    """Whether there is a GPU that no PCI bus shows: NVML counts one, or a Jetson's chip has one."""
    return raw.has_integrated_gpu or any(fault.index is not None for fault in raw.faults)


def unknown(reason: str, problem: str, expected: int | None = None) -> Description:
    """The description after a probe without a result: what is published stays."""
    return Description(NOTHING_KNOWN, expected=expected, problem=problem, reason=reason)
