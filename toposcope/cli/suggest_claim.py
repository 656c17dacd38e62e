"""What `toposcope suggest` prints besides topologies: a claim for linked GPUs, and taints for degraded ones."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from toposcope.cli.command import load_snapshot
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS, CommandError
from toposcope.cli.output import first_few, form_and_file, json_text, write_output, yaml_text
from toposcope.cli.terminal import Screen, complain
from toposcope.hardware.matrix_annotation import reasons
from toposcope.integrations.dra.allocation import Claims, Request
from toposcope.integrations.dra.api import GROUP, TEMPLATE
from toposcope.integrations.dra.audit import DRIVER
from toposcope.integrations.dra.devices import NodeDevices
from toposcope.integrations.dra.supply import Machine, Supply, machine, supply, taint_rules
from toposcope.snapshot.model import Snapshot
from toposcope.text import plural


def run_claim(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print a ResourceClaimTemplate; 1 when no claim can be met."""
    snapshot = load_snapshot(arguments, published=True, matrices=True)
    machines, claims = _machines(snapshot), Claims.of(snapshot.objects)
    claims.classes.setdefault(DRIVER, (f"device.driver == '{DRIVER}'",))
    nic = _nic_class(machines, claims) if arguments.nic == "" else arguments.nic
    found = supply(machines, snapshot.inventory, claims, arguments.gpus, arguments.link or "", nic)
    if not found.nodes:
        complain(
            f"toposcope suggest: {found.words}: no claim can get that on any of {len(machines)} nodes of {DRIVER}"
        )
        for sentence in _left_out(found):
            complain(f"toposcope suggest: {sentence}")
        return EXIT_PROBLEMS
    name = "-".join(filter(None, (f"gpus-{arguments.gpus}", arguments.link, "nic" if nic else "")))
    document = {
        "apiVersion": f"{GROUP}/{TEMPLATE.versions[0]}",
        "kind": TEMPLATE.kind,
        "metadata": {"name": name},
        "spec": {"spec": found.spec},
    }
    _write(
        screen,
        arguments,
        [(document, list(_why(found, len(machines), wide=arguments.output == "wide")))],
    )
    return EXIT_OK


def run_taints(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print DeviceTaintRules for the GPUs that agents find fault with."""
    snapshot = load_snapshot(arguments, published=True, matrices=True)
    faults = {node.name: reasons(node.matrix) for node in snapshot.nodes}
    rules = [
        (rule, [f"{rule['spec']['deviceSelector']['pool']}: {why}"])
        for rule, why in taint_rules(_machines(snapshot), faults)
    ]
    if rules:
        _write(screen, arguments, rules)
        complain(
            "note: pods keep the GPUs that they have; DeviceTaintRules need the feature gate of this name (off in 1.36)"
        )
    else:
        complain("note: no agent reports a faulty GPU that a DRA driver offers")
    return EXIT_OK


def _machines(snapshot: Snapshot) -> list[Machine]:
    there = snapshot.inventory.nodes
    all_of_them = (
        machine(node.name, there.get(node.name, NodeDevices()), node.matrix)
        for node in snapshot.nodes
    )
    return [machine for machine in all_of_them if machine.gpus]


def _nic_class(machines: Sequence[Machine], claims: Claims) -> str:
    """The only DeviceClass whose devices are no GPUs and have a place on the PCI bus.

    Raises CommandError.
    """
    others = [
        device
        for machine in machines
        for device in machine.there.devices
        if device.driver != DRIVER
    ]
    found = sorted(
        name
        for name, selectors in claims.classes.items()
        if any(Request("", selectors, 1).takes(device) for device in others)
    )
    if len(found) != 1:
        which = f"choose one of {', '.join(found)}" if found else "there is no DeviceClass of NICs"
        raise CommandError(f"--nic: {which}: --nic CLASS")
    return found[0]


def _why(found: Supply, count: int, *, wide: bool) -> Iterator[str]:
    yield f"{found.words}."
    nodes = f"{len(found.nodes)} of {count} {plural(count, 'node')}"
    few = first_few(found.nodes, len(found.nodes) if wide else 3)
    yield f"Can be met on {nodes} with GPUs of {DRIVER}, on {found.now} now: {few}"
    yield from _left_out(found)
    if "on its NUMA node" in found.words:
        yield "No GPU shares a PCIe root with such a NIC, as with a ConnectX-8's Data Direct: they share a NUMA node."


def _left_out(found: Supply) -> Iterator[str]:
    for product, node in sorted(found.left_out.items()):
        yield f"Not for {product}: GPUs that it could get are not linked, or not known to be, on {node}."


def _write(
    screen: Screen, arguments: argparse.Namespace, found: Sequence[tuple[dict[str, Any], list[str]]]
) -> None:
    form, file = form_and_file(arguments.output)
    if form == "name":
        text = "".join(
            f"{taint['kind'].lower()}.{GROUP}/{taint['metadata']['name']}\n" for taint, _ in found
        )
    elif form == "json":
        text = json_text(
            {"apiVersion": "v1", "kind": "List", "items": [taint for taint, _ in found]}
        )
    else:
        text = "---\n".join(yaml_text(taint, why) for taint, why in found)
    write_output(screen, text, file)
