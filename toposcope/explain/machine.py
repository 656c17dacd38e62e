"""The checks on one node: agent, hardware, what drivers offer to pods, NVLink domain, place."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from toposcope.api import label_keys
from toposcope.explain.node_place import check_kubelet, check_place, check_scheduling
from toposcope.hardware.matrix_annotation import MatrixError, parse, reasons
from toposcope.hardware.topology import State
from toposcope.hierarchy.node import spans_nodes
from toposcope.integrations.dra.api import SLICE
from toposcope.integrations.dra.audit import DRIVER, SeenGpu, disagreements
from toposcope.integrations.dra.devices import NodeDevices
from toposcope.integrations.framework.features import CheckStep, failed, passed, unknown
from toposcope.kube.pod_resources import is_gpu, is_gpu_part
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.text import Command, plural, shell

_UNLISTED: Final = "ResourceSlices cannot be listed, so"
_PARTITION_SIZES: Final = (2, 4, 8)
_GPU: Final = "GPU"
"""How the label of a GPU begins in the annotation."""


def _has_unlisted_slices(snapshot: Snapshot) -> bool:
    """Whether the snapshot is of a live cluster that did not let us list its ResourceSlices."""
    return snapshot.taken_at is not None and SLICE.name not in snapshot.served


def examine(snapshot: Snapshot, node: NodeView) -> tuple[CheckStep, ...]:
    """All checks in their order; the first that failed is the answer."""
    checks = {
        "kubelet": check_kubelet,
        "agent": _agent,
        "hardware": _hardware,
        "devices": _devices,
        "driver": _driver,
        "domain": _domain,
        "place": check_place,
        "scheduling": check_scheduling,
    }
    steps = []
    for name, check in checks.items():
        step = check(snapshot, node)
        steps.append(replace(step, name=name))
    return tuple(steps)


def _agent(snapshot: Snapshot, node: NodeView) -> CheckStep:
    if not node.has_gpus:
        return passed("it has no GPUs that an agent, a device plugin or a DRA driver reports")

    here = "-l app.kubernetes.io/component=agent --field-selector spec.nodeName={}"
    show = shell(f"kubectl get pods -A -o wide {here}", node.name)
    why = snapshot.unready_agents.get(node.name)
    if why and node.is_without_agent:
        return failed(f"no agent has labelled it: its agent is not Ready ({why})", commands=(show,))
    if why:
        return failed(
            f"its agent is not Ready ({why}): nothing checks that its labels are still true",
            commands=(show,),
        )
    if not node.is_without_agent:
        return passed("its agent has labelled it")
    return failed(
        f"it has GPUs and no label {label_keys.GPUS}: no agent has labelled it",
        "where GPUs come from a DRA driver alone, see docs/integrations/kube-scheduler.md "
        "for what the agent's pod needs",
        commands=(show,),
    )


def _hardware(_: Snapshot, node: NodeView) -> CheckStep:
    why = reasons(node.matrix)
    state = node.state
    if state is None:
        return unknown("no agent has labelled it")
    if state is State.DEGRADED:
        degraded = "; ".join(why) or "its annotation gives no reason"
        return failed(f"it is degraded: {degraded}", commands=(_matrix(node),))
    if state is State.UNKNOWN:
        stale = "its hardware does not answer; its labels are stale"
        return unknown(stale, *why, commands=(_matrix(node),))
    return passed("matches its baseline", *why)


def _matrix(node: NodeView) -> Command:
    return shell("toposcope matrix {}", node.name)


def _devices_of(snapshot: Snapshot, node: NodeView) -> NodeDevices:
    return snapshot.inventory.nodes.get(node.name, NodeDevices())


def _devices(snapshot: Snapshot, node: NodeView) -> CheckStep:
    """The number of GPUs that pods can ask for, by what offers them."""
    whole_gpus: dict[str, int] = {}
    parts: dict[str, int] = {}
    for name, count in node.allocatable.items():
        if is_gpu(name):
            whole_gpus[name] = count
        elif is_gpu_part(name):
            parts[name] = count

    offers = list(_offers(snapshot, node, whole_gpus))
    listed = "; ".join(offers)
    most = max(whole_gpus.values(), default=0)
    is_fully_offered = node.gpus <= most
    is_partitioned = any(parts.values())
    if is_fully_offered or is_partitioned:
        return passed(listed or "no whole GPUs are offered to pods")
    if _has_unlisted_slices(snapshot):
        return unknown(f"{_UNLISTED} what claims can ask for is not known", *offers)
    return failed(f"it has {node.gpus} GPUs, and pods can ask for {most}", *offers)


def _offers(snapshot: Snapshot, node: NodeView, offered: Mapping[str, int]) -> Iterator[str]:
    """A few words per resource: what offers how many GPUs, and how many of them are free."""
    drivers = {device.driver for device in _devices_of(snapshot, node).gpus}
    free = snapshot.free(node) or {}
    for name, count in offered.items():
        if not count:
            continue
        offer = f"{count} as {name}"
        if name in drivers:
            offer = f"{count} by ResourceSlices of {name}"
        if snapshot.pods is not None:
            offer += f", {free[name]} free"
        yield offer


def _driver(snapshot: Snapshot, node: NodeView) -> CheckStep:
    """What the driver publishes about each GPU agrees with what NVML and sysfs say."""
    published = _devices_of(snapshot, node)
    if _has_unlisted_slices(snapshot):
        return unknown(f"{_UNLISTED} what a driver says about it is not known")
    if not any(device.driver == DRIVER for device in published.devices):
        return passed(f"{DRIVER} publishes nothing about it, so there is nothing to compare")
    if node.matrix is None:
        return unknown("its agent has recorded no devices to compare with the driver's")

    try:
        probed = _probed_gpus(node, node.matrix, published)
    except MatrixError as error:
        return unknown(str(error))

    different = disagreements(probed, published)
    if not different:
        gpus = f"{len(probed)} {plural(len(probed), _GPU)}"
        return passed(f"{DRIVER} agrees with NVML and sysfs on {gpus}")

    of_node = "--field-selector spec.nodeName={} -o yaml"
    slices = shell(f"kubectl get resourceslices {of_node}", node.name)
    return failed(
        f"{DRIVER} and the hardware disagree: {different[0]}",
        *different[1:],
        commands=(slices, _matrix(node)),
    )


def _probed_gpus(node: NodeView, matrix: str, published: NodeDevices) -> list[SeenGpu]:
    """The GPUs that the agent has written down. Raises MatrixError."""
    products = {device.attribute("productName") for device in published.gpus_of(DRIVER)}
    product = ""
    if len(products) == 1:
        product = node.label(label_keys.GPU_PRODUCT) or ""

    probed = []
    for device in parse(matrix).devices:
        if device.kind == "gpu":
            number = device.label.removeprefix(_GPU)
            gpu = SeenGpu(
                name=f"{_GPU} {number}",
                uuid=device.name,
                pci=device.pci,
                root=device.root,
                numa=device.numa,
                product=product,
            )
            probed.append(gpu)
    return probed


def _domain(snapshot: Snapshot, node: NodeView) -> CheckStep:
    """Its NVLink domain, and the ComputeDomains that it is in."""
    value = node.label(label_keys.NVLINK_DOMAIN)
    if value is None:
        return unknown("its NVLink domain is not known")

    sentences: list[str] = []
    wrong: list[str] = []
    for domain in snapshot.compute_domains:
        if node.name not in domain.cliques:
            continue
        sentences.append(domain.sentence)
        if node.name in domain.waiting:
            wrong.append(f"the IMEX daemon of ComputeDomain {domain.name} is not ready on it")

        clique = domain.cliques[node.name]
        if clique and clique != value:
            wrong.append(
                f"ComputeDomain {domain.name} has it in clique {clique}, but NVML reports {value}"
            )

    if wrong:
        return failed(*wrong, *sentences)

    where = "NVLink ends at the node"
    if spans_nodes(value):
        where = f"NVLink domain {value}"
    partitions = _partitions(snapshot, node)
    return passed(where, *partitions, *sentences)


def _partitions(snapshot: Snapshot, node: NodeView) -> Iterator[str]:
    """The partitions of its NVSwitch that Fabric Manager offers, if its driver publishes them."""
    devices = _devices_of(snapshot, node)
    gpus = list(devices.gpus_of(DRIVER))
    for size in _PARTITION_SIZES:
        attribute = f"partition{size}"
        numbers = {device.attribute(attribute) for device in gpus}
        numbers.discard(None)
        if numbers:
            count = len(numbers)
            partitions = plural(count, "partition")
            yield f"Fabric Manager has {count} {partitions} of {size} GPUs"
