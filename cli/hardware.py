"""The machine that a command looks at: the real one, a profile's, or one built from a captured matrix."""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.isolation import ProbeProcess
from agent.nvml import open_pynvml

if TYPE_CHECKING:
    from simulator.machine import Machine


class HardwareError(Exception):
    """The machine asked for cannot be had; the message names the file or field and the fix."""


def add_profile_argument(group: argparse._ActionsContainer) -> None:
    """Declare `--profile` and what belongs to it."""
    group.add_argument(
        "--profile", metavar="NAME|FILE", help="look at a simulated machine; `--profile list` names those that ship"
    )
    group.add_argument(
        "--faults", type=Path, metavar="FILE", help="with --profile: what is broken there; read anew at each probe"
    )


@contextlib.contextmanager
def hardware(arguments: argparse.Namespace, node_name: str) -> Iterator[ProbeProcess]:
    """The process that probes the machine which the arguments name. Raises HardwareError.

    A simulated machine takes its UUIDs and serial numbers from `node_name`. Enter this before the first thread starts.
    """
    capture: str | None = getattr(arguments, "capture", None)
    if not (arguments.profile or capture):
        with ProbeProcess(open_pynvml, arguments.sysfs) as probe:
            yield probe
        return
    from simulator.capture import CaptureError, machine_from_capture  # noqa: PLC0415 - production agents never load the simulator
    from simulator.document import DocumentError  # noqa: PLC0415 - same
    from simulator.machine import with_identity  # noqa: PLC0415 - same
    from simulator.profile import load_profile, profile_names  # noqa: PLC0415 - same

    if arguments.profile == "list":
        raise HardwareError("profiles that ship: " + ", ".join(profile_names()))
    try:
        machine = machine_from_capture(_read(capture)) if capture else load_profile(arguments.profile)
    except (CaptureError, DocumentError) as error:
        raise HardwareError(str(error)) from error
    for note in machine.notes:
        print(f"note: {note}", file=sys.stderr)
    with simulated(with_identity(machine, node_name), arguments.faults) as probe:
        yield probe


@contextlib.contextmanager
def simulated(machine: "Machine", faults: Path | None) -> Iterator[ProbeProcess]:
    """The process that probes a simulated machine: simulated NVML, and a sysfs tree in a temporary folder."""
    from simulator.nvml import SimulatedNvml  # noqa: PLC0415 - production agents never load the simulator
    from simulator.sysfs import write_sysfs  # noqa: PLC0415 - same

    with tempfile.TemporaryDirectory(prefix="toposcope-sys-") as folder:
        root = Path(folder) / "sys"
        write_sysfs(machine, root)
        with ProbeProcess(lambda: SimulatedNvml(machine, faults_file=faults, wait=time.sleep), root) as probe:
            yield probe


def _read(capture: str) -> str:
    try:
        return sys.stdin.read() if capture == "-" else Path(capture).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HardwareError(f"--capture {capture}: {error.strerror}") from error
