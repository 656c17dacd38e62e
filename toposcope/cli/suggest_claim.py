"""What `toposcope suggest` prints for devices: claims for linked GPUs, taints for degraded ones."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.cli.command import load_snapshot, whole_number
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS, CommandError
from toposcope.cli.output import (
    form_and_file,
    json_text,
    list_document,
    write_output,
    yaml_text,
)
from toposcope.cli.terminal import Screen, complain
from toposcope.hardware.matrix_annotation import gpu_faults
from toposcope.integrations.dra.allocation import Claims, DeviceRequest
from toposcope.integrations.dra.api import GROUP, TEMPLATE
from toposcope.integrations.dra.audit import DRIVER, NUMA_NODE
from toposcope.integrations.dra.devices import DraDevice, NodeDevices
from toposcope.integrations.dra.supply import (
    LINKS,
    SuppliedNode,
    Supply,
    machine,
    supply,
    taint_rules,
)
from toposcope.snapshot.model import Snapshot
from toposcope.text import first_few, plural

_MAX_NAMES: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `claim` to those of the command."""
    claim = parser.add_argument_group("claim")
    number = whole_number("a number of GPUs", most=16)
    claim.add_argument("--gpus", type=number, default=1, metavar="N", help="how many; default: 1")
    claim.add_argument(
        "--link", choices=tuple(LINKS), help="how the GPUs must be linked, on every node here"
    )
    claim.add_argument(
        "--nic",
        nargs="?",
        const="",
        metavar="CLASS",
        help="a NIC of this DeviceClass near each of them",
    )


def run_claim(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print a ResourceClaimTemplate; 1 when no claim can be met."""
    snapshot = load_snapshot(arguments, has_published=True, has_matrices=True)
    machines = _machines(snapshot)
    claims = Claims.of(snapshot.objects)
    claims.classes.setdefault(DRIVER, (f"device.driver == '{DRIVER}'",))
    nic = arguments.nic
    if nic == "":
        nic = _nic_class(machines, claims)
    claim = supply(
        machines,
        snapshot.inventory,
        claims,
        gpus=arguments.gpus,
        link=arguments.link or "",
        nic_class=nic,
    )
    if not claim.nodes:
        where = f"any of {len(machines)} nodes of {DRIVER}"
        complain(f"toposcope suggest: {claim.words}: no claim can get that on {where}")
        for sentence in _left_out(claim):
            complain(f"toposcope suggest: {sentence}")
        return EXIT_PROBLEMS

    name = [f"gpus-{arguments.gpus}"]
    if arguments.link:
        name.append(arguments.link)
    if nic:
        name.append("nic")

    template = {
        "apiVersion": f"{GROUP}/{TEMPLATE.versions[0]}",
        "kind": TEMPLATE.kind,
        "metadata": {"name": "-".join(name)},
        "spec": {"spec": claim.spec},
    }
    comments = list(_why(claim, len(machines), is_wide=arguments.output == "wide"))
    _write(screen, arguments, [_Suggested(template, comments)])
    return EXIT_OK


@dataclass(frozen=True, slots=True)
class _Suggested:
    """An object to apply, and why."""

    document: dict[str, Any]
    comments: list[str]

    @property
    def handle(self) -> str:
        """What `kubectl` calls it."""
        return f"{self.document['kind'].lower()}.{GROUP}/{self.document['metadata']['name']}"


def run_taints(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print DeviceTaintRules for the GPUs that agents find fault with."""
    snapshot = load_snapshot(arguments, has_published=True, has_matrices=True)
    faults = {node.name: gpu_faults(node.matrix) for node in snapshot.nodes}
    rules = []
    for rule, why in taint_rules(_machines(snapshot), faults):
        node = rule["spec"]["deviceSelector"]["pool"]
        rules.append(_Suggested(rule, [f"{node}: {why}"]))
    if rules:
        _write(screen, arguments, rules)
        complain(
            "note: pods keep the GPUs that they have; "
            "DeviceTaintRules need the feature gate of this name (off in 1.36)"
        )
    else:
        complain("note: no agent reports a faulty GPU that a DRA driver offers")
    return EXIT_OK


def _machines(snapshot: Snapshot) -> list[SuppliedNode]:
    """The nodes whose GPUs a driver offers."""
    offered = snapshot.inventory.nodes
    machines = []
    for node in snapshot.nodes:
        devices = offered.get(node.name, NodeDevices())
        candidate = machine(node.name, devices, node.matrix)
        if candidate.gpus:
            machines.append(candidate)
    return machines


def _nic_class(machines: Sequence[SuppliedNode], claims: Claims) -> str:
    """The only DeviceClass of PCI devices that are no GPUs. Raises CommandError."""
    others: list[DraDevice] = []
    for node in machines:
        for device in node.devices.devices:
            if device.driver != DRIVER:
                others.append(device)

    names = []
    for name, selectors in claims.classes.items():
        request = DeviceRequest("", selectors, 1)
        if any(request.takes(device) for device in others):
            names.append(name)

    if not names:
        raise CommandError("--nic: there is no DeviceClass of NICs: --nic CLASS")
    if len(names) > 1:
        raise CommandError(f"--nic: choose one of {', '.join(sorted(names))}: --nic CLASS")
    return names[0]


def _why(claim: Supply, count: int, *, is_wide: bool) -> Iterator[str]:
    yield f"{claim.words}."
    nodes = f"{len(claim.nodes)} of {count} {plural(count, 'node')}"
    names = first_few(claim.nodes, len(claim.nodes) if is_wide else _MAX_NAMES)
    yield f"Can be met on {nodes} with GPUs of {DRIVER}, on {claim.now} now: {names}"
    yield from _left_out(claim)
    if claim.nic_near == NUMA_NODE:
        yield (
            "No GPU shares a PCIe root with such a NIC, as with a ConnectX-8's Data Direct: "
            "they share a NUMA node."
        )


def _left_out(claim: Supply) -> Iterator[str]:
    for product, node in sorted(claim.left_out.items()):
        yield (
            f"Not for {product}: GPUs that it could get are not linked, "
            f"or not known to be, on {node}."
        )


def _write(screen: Screen, arguments: argparse.Namespace, suggested: Sequence[_Suggested]) -> None:
    form, file = form_and_file(arguments.output)
    if form == "name":
        text = "".join(f"{suggestion.handle}\n" for suggestion in suggested)
    elif form == "json":
        text = json_text(list_document([suggestion.document for suggestion in suggested]))
    else:
        texts = []
        for suggestion in suggested:
            texts.append(yaml_text(suggestion.document, suggestion.comments))
        text = "---\n".join(texts)
    write_output(screen, text, file)
