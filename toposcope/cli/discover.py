"""Show how the GPUs of a machine are wired: link matrix, and the labels an agent would publish.

Needs no cluster.
"""

import argparse
import platform
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from toposcope.agent.describe import Description, describe
from toposcope.agent.labels import Labels
from toposcope.agent.nvml.supervisor import ProbeError
from toposcope.agent.options import add_vf_rails_argument
from toposcope.agent.raw import RawNode
from toposcope.api import label_keys
from toposcope.cli.hardware import HardwareError, ProbeSource, add_profile_argument, source
from toposcope.cli.matrix import matrix_lines
from toposcope.cli.output import show_document
from toposcope.cli.terminal import Screen, complain, screen
from toposcope.hardware.matrix import table
from toposcope.hardware.topology import Gpu, Interconnect, NodeTopology

OUTPUTS: Final = ("table", "json", "yaml", "labels", "matrix")
_NOT_YET_KNOWN: Final = " not known yet: stays as it is on the Node"
_NOT_IN_TEXT: Final = " not in this text"
"""A paste has no Node whose labels could stay."""
_RACK_PRODUCTS: Final = re.compile(r"\bG[BH][23]00\b")
"""Products of compute trays: GH200 NVL32, GB200 and GB300 NVL72."""
_MAX_TRAY_GPUS: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope discover`."""
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="default: table")
    parser.add_argument(
        "--node-name", default=platform.node(), help="name to use in labels; default: this host's"
    )
    parser.add_argument(
        "--sysfs",
        type=Path,
        default=Path("/sys"),
        metavar="DIR",
        help="where sysfs is; default: /sys",
    )
    add_vf_rails_argument(parser)
    about = (
        "also write every NVML call and sysfs read of the probe, with its answer, as JSON, "
        "to replay elsewhere with --profile FILE. UUIDs, serial numbers, chassis serials and "
        "GUIDs in it are replaced; host and node names are not in it. Kept: product names, "
        "driver version, PCI addresses, vendor and device ids of all devices, NIC names, CPU and "
        "NUMA layout, link states and speeds, clique ids, tray and slot numbers, fabric health, "
        "errors and how long each call took"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help=about)
    instead = parser.add_argument_group("instead of this machine")
    add_profile_argument(instead)
    instead.add_argument(
        "--capture",
        metavar="FILE",
        help="a machine built from the output of `nvidia-smi topo -m` (-: standard input), "
        "also as pasted into a mail, an issue or a log",
    )
    instead.add_argument(
        "--capture-host",
        metavar="HOST",
        help="with --capture: whose matrix to take, where the text has several",
    )


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Probe once and print; 1 when the hardware does not answer."""
    if arguments.profile and arguments.capture:
        parser.error("give --profile or --capture, not both")
    if arguments.capture_host and not arguments.capture:
        parser.error("--capture-host chooses a matrix of --capture FILE; give both")

    try:
        description = _described(arguments)
    except (HardwareError, ProbeError) as error:
        return _fail(str(error))

    if description.topology is None:
        problem = description.problem or "no NVIDIA GPU on this machine: none on its PCI bus"
        instead = "for a simulated machine: --profile NAME; for a pasted matrix: --capture FILE"
        return _fail(f"{problem}\n({instead})")

    shown = screen(can_page=False)
    if arguments.output in ("json", "yaml"):
        show_document(shown, arguments.output, document(description, description.topology))
    else:
        missing = _NOT_IN_TEXT if arguments.capture else _NOT_YET_KNOWN
        shown.show(_lines(shown, arguments.output, description, description.topology, missing))

    return 0


def _described(arguments: argparse.Namespace) -> Description:
    """The machine as the probe found it. Raises HardwareError and ProbeError."""
    with source(arguments, arguments.node_name) as machine:
        raw = _recorded(machine, arguments.record) if arguments.record else _probed(machine)
        raw = raw._replace(has_read_nvlinks=machine.has_known_nvlinks)
    description = describe(raw, arguments.node_name)
    return _as_text_says(description) if arguments.capture else description


def _probed(machine: ProbeSource) -> RawNode:
    with machine.probe_process() as process:
        return process.probe()


def _recorded(machine: ProbeSource, file: Path) -> RawNode:
    from toposcope.cli.recording import record  # noqa: PLC0415 - only this flag needs it
    from toposcope.simulator.recording import RecordingError  # noqa: PLC0415 - same

    try:
        return record(machine, file, datetime.now(UTC).date())
    except (OSError, RecordingError) as error:
        raise HardwareError(f"--record {file}: {error}") from error


def _as_text_says(description: Description) -> Description:
    """The description without what a matrix cannot say: the fabric beyond a machine in a rack."""
    if description.topology is None or not _can_be_in_rack(description.topology):
        return description
    labels = dict(description.labels.by_key)
    beyond = {label_keys.FABRIC, label_keys.NVLINK_DOMAIN}
    for key in beyond:
        labels.pop(key, None)
    unknown = description.labels.unknown | beyond
    return description._replace(labels=Labels(labels, unknown))


def _can_be_in_rack(topology: NodeTopology) -> bool:
    """Whether its GPUs are a product of NVLink racks.

    Where they have no product name: whether it has a tray's GPUs behind NVSwitches.
    """
    is_rack_product = False
    for gpu in topology.gpus:
        if not gpu.product:
            is_tray_sized = len(topology.gpus) <= _MAX_TRAY_GPUS
            return is_tray_sized and topology.interconnect is Interconnect.NVSWITCH
        if _RACK_PRODUCTS.search(gpu.product):
            is_rack_product = True
    return is_rack_product


def _fail(message: str) -> int:
    complain(f"toposcope discover: {message}")
    return 1


def document(description: Description, topology: NodeTopology) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print."""
    facts = _facts(topology)
    levels = facts["pci_levels"]
    labels = description.labels.by_key
    nvlink_domains = nvswitches = None
    if topology.nvlinks_read:
        nvlink_domains = [list(domain) for domain in topology.nvlink_domains]
        nvswitches = topology.nvswitches

    return {
        "labels": dict(sorted(labels.items())),
        "annotations": dict(description.annotations),
        "state": topology.state,
        "reasons": list(topology.reasons),
        "gpus_expected": description.expected,
        "devices": list(topology.matrix.devices),
        "matrix": [list(row) for row in topology.matrix.cells],
        # The matrix shows NVML's level before that of sysfs, and NVLinks before both.
        "pci_levels": {"nvml": levels["nvml"], "sysfs": levels["sysfs"]},
        "disputes": facts["disputes"],
        "gpus": facts["gpus"],
        "nics": facts["nics"],
        "data_direct": facts["data_direct"],
        "hidden_nics": facts["hidden_nics"],
        "numa": facts["numa"],
        "nvlink_domains": nvlink_domains,
        "interconnect": labels.get(label_keys.INTERCONNECT),
        "nvswitches": nvswitches,
        "fabric": labels.get(label_keys.FABRIC),
        "clique": topology.clique,
        "platform": facts["platform"],
        "rail_aligned": topology.rail_aligned,
        "shape": labels.get(label_keys.SHAPE),
    }


def _facts(value: Any) -> Any:
    """Named tuples as dicts, recursively, with the totals of a GPU's links."""
    if isinstance(value, Gpu):
        facts = _fields(value)
        facts["links_active"] = value.links_active
        facts["link_mbps"] = value.link_mbps
        facts["nvlink_version"] = value.nvlink_version
        facts["pci"] = value.address
        return facts
    if hasattr(value, "_asdict"):
        return _fields(value)
    if isinstance(value, tuple):
        return [_facts(item) for item in value]
    return value


def _fields(value: Any) -> dict[str, Any]:
    return {name: _facts(field) for name, field in value._asdict().items()}


def _lines(
    screen: Screen, output: str, description: Description, topology: NodeTopology, missing: str
) -> Iterator[str]:
    """The lines of the other outputs; `missing` stands behind each label that is not known."""
    labels = sorted(description.labels.by_key.items())
    if output == "matrix":
        yield from table(topology.matrix).split("\n")
    elif output == "labels":
        for key, value in labels:
            yield f"{key}={value}"
    else:
        for line in matrix_lines(screen, topology.matrix):
            yield line.rstrip()
        yield from _legend(screen, topology)
        yield ""
        for key, value in labels:
            yield f"{screen.paint(key, 'cyan')}={value}"
        for key in sorted(description.labels.unknown):
            yield screen.paint(key, "cyan") + screen.paint(missing, "dim")
        for reason in topology.reasons:
            yield screen.paint(f"! {reason}", "yellow")


def _legend(screen: Screen, topology: NodeTopology) -> Iterator[str]:
    """The NICs and Data Direct functions of the matrix, as nvidia-smi's legend has them."""
    if topology.nics or topology.data_direct:
        yield ""
    for number, nic in enumerate(topology.nics):
        line = f"NIC{number}: {nic.name} ({nic.pci})"
        yield screen.paint(line, "dim")
    for number, function in enumerate(topology.data_direct):
        nics = " ".join(function.nics)
        owner = nics or "an unknown NIC"
        line = f"DD{number}: {owner} data-direct function ({function.pci})"
        yield screen.paint(line, "dim")
