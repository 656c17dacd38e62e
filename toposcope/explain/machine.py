"""The checks on one node: its agent, its hardware, what drivers offer of it, and the NVLink domain it is in."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from toposcope.api import label_keys
from toposcope.hardware.matrix_annotation import MatrixError, parse, reasons
from toposcope.hardware.topology import State
from toposcope.hierarchy.node import spans_nodes
from toposcope.integrations.dra.api import SLICE
from toposcope.integrations.dra.audit import DRIVER, SeenGpu, disagreements
from toposcope.integrations.dra.devices import NodeDevices
from toposcope.integrations.framework.features import Step, failed, passed, unknown
from toposcope.kube.pod_resources import is_gpu, is_gpu_part
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.text import Command, plural, shell

_UNLISTED: Final = "ResourceSlices cannot be listed, so"


def _unlisted(snapshot: Snapshot) -> bool:
    """Whether the cluster was asked for its ResourceSlices and did not tell."""
    return snapshot.taken_at is not None and SLICE.name not in snapshot.served


def examine(snapshot: Snapshot, node: NodeView) -> tuple[Step, ...]:
    """All checks in their order; the first that failed is the answer."""
    checks = {
        "agent": _agent,
        "hardware": _hardware,
        "devices": _devices,
        "driver": _driver,
        "domain": _domain,
    }
    return tuple(replace(check(snapshot, node), name=name) for name, check in checks.items())


def _agent(_: Snapshot, node: NodeView) -> Step:
    if not node.has_gpus:
        return passed("it has no GPUs that an agent, a device plugin or a DRA driver reports")
    if node.without_agent:
        here = "-l app.kubernetes.io/component=agent --field-selector spec.nodeName={}"
        pods = shell(f"kubectl get pods -A -o wide {here}", node.name)
        return failed(
            f"it has GPUs and no label {label_keys.GPUS}: no agent has labelled it",
            "where GPUs come from a DRA driver alone, see docs/integrations/dra.md for what the agent's pod needs",
            commands=(pods,),
        )
    return passed("its agent has labelled it")


def _hardware(_: Snapshot, node: NodeView) -> Step:
    why, state = reasons(node.matrix), node.state
    if state is State.DEGRADED:
        said = "; ".join(why) or "its annotation gives no reason"
        return failed(f"it is degraded: {said}", commands=(_matrix(node),))
    if state is State.UNKNOWN:
        return unknown(
            "its hardware does not answer; its labels are stale", *why, commands=(_matrix(node),)
        )
    return passed("matches its baseline", *why) if state else unknown("no agent has labelled it")


def _matrix(node: NodeView) -> Command:
    return shell("toposcope matrix {}", node.name)


def _devices(snapshot: Snapshot, node: NodeView) -> Step:
    """How many GPUs pods can ask for, by what offers them."""
    offered = {name: count for name, count in node.allocatable.items() if count and is_gpu(name)}
    there = snapshot.inventory.nodes.get(node.name, NodeDevices())
    whole = {device.driver for device in there.gpus}
    free = snapshot.free(node) or {}
    said = [
        f"{count} {'by ResourceSlices of' if name in whole else 'as'} {name}"
        + (f", {free[name]} free" if snapshot.pods is not None else "")
        for name, count in offered.items()
    ]
    parts = any(count and is_gpu_part(name) for name, count in node.allocatable.items())
    if node.gpus > max(offered.values(), default=0) and not parts:
        if _unlisted(snapshot):
            return unknown(f"{_UNLISTED} what claims can ask for is not known", *said)
        return failed(
            f"it has {node.gpus} GPUs, and pods can ask for {max(offered.values(), default=0)}",
            *said,
        )
    return passed("; ".join(said) or "no whole GPUs are offered to pods")


def _driver(snapshot: Snapshot, node: NodeView) -> Step:
    """The audit: what the driver publishes of each GPU, beside what NVML and sysfs say."""
    there = snapshot.inventory.nodes.get(node.name, NodeDevices())
    if _unlisted(snapshot):
        return unknown(f"{_UNLISTED} what a driver says about it is not known")
    if not any(device.driver == DRIVER for device in there.devices):
        return passed(f"{DRIVER} publishes nothing about it, so there is nothing to compare")
    if node.matrix is None:
        return unknown("its agent has written down no devices to compare with the driver's")
    try:
        found = parse(node.matrix)
    except MatrixError as error:
        return unknown(str(error))
    products = {device.attribute("productName") for device in there.gpus_of(DRIVER)}
    product = (node.label(label_keys.GPU_PRODUCT) or "") if len(products) == 1 else ""
    seen = [
        SeenGpu(
            f"GPU {device.label.removeprefix('GPU')}",
            device.name,
            device.pci,
            device.root,
            device.numa,
            product,
        )
        for device in found.devices
        if device.label.startswith("GPU")
    ]
    differ = disagreements(seen, there)
    if not differ:
        return passed(
            f"{DRIVER} agrees with NVML and sysfs on {len(seen)} {plural(len(seen), 'GPU')}"
        )
    slices = shell(
        "kubectl get resourceslices --field-selector spec.nodeName={} -o yaml", node.name
    )
    return failed(
        f"{DRIVER} and the hardware disagree: {differ[0]}",
        *differ[1:],
        commands=(slices, _matrix(node)),
    )


def _domain(snapshot: Snapshot, node: NodeView) -> Step:
    """Its NVLink domain, and the ComputeDomains that it is in."""
    value = node.label(label_keys.NVLINK_DOMAIN)
    if value is None:
        return unknown("its NVLink domain is not known")
    said, wrong = list[str](), list[str]()
    for domain in snapshot.compute_domains:
        if node.name not in domain.cliques:
            continue
        said.append(domain.sentence)
        if node.name in domain.waiting:
            wrong.append(f"the IMEX daemon of ComputeDomain {domain.name} is not ready on it")
        clique = domain.cliques[node.name]
        if clique and clique != value:
            wrong.append(
                f"ComputeDomain {domain.name} has it in clique {clique}, and NVML in {value}"
            )
    where = f"NVLink domain {value}" if spans_nodes(value) else "NVLink ends at the node"
    return (
        failed(wrong[0], *wrong[1:], *said)
        if wrong
        else passed(where, *_partitions(snapshot, node), *said)
    )


def _partitions(snapshot: Snapshot, node: NodeView) -> Iterator[str]:
    """The partitions of its NVSwitch that Fabric Manager offers, where NVIDIA's driver publishes them."""
    there = snapshot.inventory.nodes.get(node.name, NodeDevices()).gpus_of(DRIVER)
    for size in (2, 4, 8):
        numbers = {device.attribute(f"partition{size}") for device in there} - {None}
        if numbers:
            yield f"Fabric Manager has {len(numbers)} {plural(len(numbers), 'partition')} of {size} GPUs"
