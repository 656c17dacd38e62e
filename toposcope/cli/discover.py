"""Show how the GPUs of a machine are wired: link matrix, and the labels an agent would publish. Needs no cluster."""

import argparse
import json
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from toposcope.agent.describe import Description, describe
from toposcope.agent.nvml.supervisor import ProbeError
from toposcope.agent.raw import RawNode
from toposcope.cli.colours import matrix_text
from toposcope.cli.hardware import HardwareError, Source, add_profile_argument, source
from toposcope.topology.hardware import Gpu, NodeTopology
from toposcope.topology.matrix import table

OUTPUTS: Final = ("table", "json", "yaml", "labels", "matrix")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope discover`."""
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="default: table")
    parser.add_argument("--node-name", default=platform.node(), help="name to use in labels; default: this host's")
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), metavar="DIR", help="where sysfs is; default: /sys")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="also write down, as JSON, every NVML call and sysfs path that the probe asked for and what came back, to "
        "be replayed elsewhere with --profile FILE. UUIDs, serial numbers, chassis serials and GUIDs in it are "
        "stand-ins; host and node names are not in it. Left as they are: product names, driver version, PCI addresses "
        "and vendor ids of all devices, NIC names, CPU and NUMA layout, link states and speeds, clique ids, tray and "
        "slot numbers, fabric health, errors and how long each call took",
    )
    instead = parser.add_argument_group("instead of this machine")
    add_profile_argument(instead)
    instead.add_argument(
        "--capture",
        metavar="FILE",
        help="a machine built from the text of `nvidia-smi topo -m` (-: standard input)",
    )


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Probe once and print; 1 when the hardware does not answer."""
    if arguments.profile and arguments.capture:
        parser.error("--profile and --capture name two machines; give one")
    try:
        with source(arguments, arguments.node_name) as machine:
            raw = _recorded(machine, arguments.record) if arguments.record else _probed(machine)
        found = describe(raw, arguments.node_name)
    except (HardwareError, ProbeError) as error:
        return _fail(str(error))
    if found.topology is None:
        problem = found.problem or "no NVIDIA GPU on this machine: there is none on the PCI bus that NVML could see"
        return _fail(f"{problem}\n(to look at a simulated machine: --profile NAME; at a pasted matrix: --capture FILE)")
    _PRINT[arguments.output](found, found.topology)
    return 0


def _probed(machine: Source) -> RawNode:
    with machine.probe_process() as process:
        return process.probe()


def _recorded(machine: Source, file: Path) -> RawNode:
    from toposcope.cli.recording import record  # noqa: PLC0415 - only this flag needs it
    from toposcope.simulator.recording import RecordingError  # noqa: PLC0415 - same

    try:
        return record(machine, file, datetime.now(UTC).date())
    except (OSError, RecordingError) as error:
        raise HardwareError(f"--record {file}: {error}") from error


def _fail(message: str) -> int:
    print(f"toposcope discover: {message}", file=sys.stderr)
    return 1


def document(found: Description, topology: NodeTopology) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print."""
    facts = _facts(topology)
    levels = facts["pci_levels"]
    return {
        "labels": dict(sorted(found.labels.known.items())),
        "annotations": dict(found.annotations),
        "state": topology.state,
        "reasons": list(topology.reasons),
        "gpus_expected": found.expected,
        "devices": list(topology.matrix.devices),
        "matrix": [list(row) for row in topology.matrix.cells],
        # The matrix shows NVML's level before that of sysfs, and NVLinks before both.
        "pci_levels": {who: levels[who] for who in ("nvml", "sysfs")},
        "disputes": facts["disputes"],
        "gpus": facts["gpus"],
        "nics": facts["nics"],
        "numa": facts["numa"],
        "nvlink_domains": [list(domain) for domain in topology.nvlink_domains],
        "interconnect": topology.interconnect,
        "nvswitches": topology.nvswitches,
        "fabric": topology.fabric,
        "clique": topology.clique,
        "platform": facts["platform"],
        "rail_aligned": topology.rail_aligned,
        "shape": topology.shape,
    }


def _facts(value: Any) -> Any:
    """Named tuples as dicts, all the way down, with what a GPU's links come to."""
    if isinstance(value, Gpu):
        links = {"links_active": value.links_active, "link_mbps": value.link_mbps}
        return _fields(value) | links | {"nvlink_version": value.nvlink_version}
    if hasattr(value, "_asdict"):
        return _fields(value)
    return [_facts(each) for each in value] if isinstance(value, tuple) else value


def _fields(value: Any) -> dict[str, Any]:
    return {name: _facts(each) for name, each in value._asdict().items()}


def _json(found: Description, topology: NodeTopology) -> None:
    print(json.dumps(document(found, topology), indent=2, ensure_ascii=False))


def _yaml(found: Description, topology: NodeTopology) -> None:
    import yaml  # noqa: PLC0415 - only this output needs it

    # Through JSON, so that what is printed are plain strings and lists.
    print(
        yaml.safe_dump(json.loads(json.dumps(document(found, topology))), sort_keys=False, allow_unicode=True), end=""
    )


def _labels(found: Description, _: NodeTopology) -> None:
    for key, value in sorted(found.labels.known.items()):
        print(f"{key}={value}")


def _matrix(_: Description, topology: NodeTopology) -> None:
    print(table(topology.matrix))


def _table(found: Description, topology: NodeTopology) -> None:
    console = Console(highlight=False, emoji=False, markup=False)
    console.print(matrix_text(topology.matrix), soft_wrap=True)
    if topology.nics:
        console.print()
        for number, nic in enumerate(topology.nics):
            console.print(f"NIC{number}: {nic.name} ({nic.pci})", style="dim", soft_wrap=True)
    console.print()
    for key, value in sorted(found.labels.known.items()):
        console.print(Text.assemble((key, "cyan"), "=", value), soft_wrap=True)
    for key in sorted(found.labels.unknown):
        console.print(
            Text.assemble((key, "cyan"), (" not known yet: stays as it is on the Node", "dim")), soft_wrap=True
        )
    for reason in topology.reasons:
        console.print(f"! {reason}", style="yellow", soft_wrap=True)


_PRINT: Final[dict[str, Callable[[Description, NodeTopology], None]]] = {
    "table": _table,
    "json": _json,
    "yaml": _yaml,
    "labels": _labels,
    "matrix": _matrix,
}
