"""The machine a command probes: the real one, a profile's, a recorded or a captured one.

The imports in functions are those of the simulator, which production agents never load.
"""

import argparse
import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toposcope.agent.nvml.gateway import Nvml, open_pynvml
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.cli.streams import read_small, say
from toposcope.errors import ToposcopeError

if TYPE_CHECKING:
    from toposcope.simulator.machine import Machine
    from toposcope.simulator.recording import Recording


class HardwareError(ToposcopeError):
    """The machine is not available; the message names the file or field and the fix."""


class ProbeSource(NamedTuple):
    """What a probe needs: `open_nvml` returns `pynvml` or its substitute, `sysfs` is /sys."""

    open_nvml: Callable[[], Any]
    sysfs: Path
    is_simulated: bool
    has_vf_rails: bool = False
    """Whether virtual functions count as NICs."""
    has_known_nvlinks: bool = True
    """False: a capture that does not say which NVLinks there are; NVML's answers mean nothing."""

    def probe_process(self) -> ProbeProcess:
        """The process that probes it."""
        return ProbeProcess(self.open_nvml, self.sysfs, has_vf_rails=self.has_vf_rails)


def add_profile_argument(group: argparse._ActionsContainer) -> None:
    """Declare `--profile` and what belongs to it."""
    group.add_argument(
        "--profile",
        metavar="NAME|FILE",
        help="use a simulated machine, or one recorded by `toposcope discover --record`; "
        "`--profile list` names the simulated ones",
    )
    group.add_argument(
        "--faults",
        type=Path,
        metavar="FILE",
        help="with --profile: faults to simulate; read again at each probe",
    )


@contextlib.contextmanager
def hardware(arguments: argparse.Namespace, node_name: str) -> Iterator[ProbeProcess]:
    """The process that probes the machine that the arguments name. Raises HardwareError.

    A simulated machine takes its UUIDs and serial numbers from `node_name`. Enter this before the
    first thread starts.
    """
    with source(arguments, node_name) as machine, machine.probe_process() as process:
        yield process


@contextlib.contextmanager
def source(arguments: argparse.Namespace, node_name: str) -> Iterator[ProbeSource]:
    """The machine that the arguments name; see `hardware`."""
    has_vf_rails = bool(getattr(arguments, "vf_rails", False))
    with _source(arguments, node_name) as machine:
        yield machine._replace(has_vf_rails=has_vf_rails)


@contextlib.contextmanager
def _source(arguments: argparse.Namespace, node_name: str) -> Iterator[ProbeSource]:
    capture: str | None = getattr(arguments, "capture", None)
    if not (arguments.profile or capture):
        yield ProbeSource(open_pynvml, arguments.sysfs, is_simulated=False)
        return

    recording = None
    if not capture:
        recording = _recording_of(arguments)
    if recording:
        with _recorded(arguments.profile, recording) as machine:
            yield machine
        return

    described = _simulated_machine(arguments, capture)
    for note in described.notes:
        say(f"note: {note}")

    from toposcope.simulator.machine import with_identity  # noqa: PLC0415 - not in an agent

    with _simulated(with_identity(described, node_name), arguments.faults) as machine:
        yield machine


def _recording_of(arguments: argparse.Namespace) -> "Recording | None":
    """The recording that `--profile` names, if it is one. Raises HardwareError."""
    from toposcope.simulator.profile import profile_names  # noqa: PLC0415 - not in an agent

    if arguments.profile == "list":
        raise HardwareError("available profiles: " + ", ".join(profile_names()))

    recording = _recording(arguments.profile)
    if recording and arguments.faults:
        raise HardwareError(
            f"--faults: {arguments.profile} is a recording, "
            "and only profiles can have faults; leave it out"
        )
    return recording


def _simulated_machine(arguments: argparse.Namespace, capture: str | None) -> "Machine":
    """The machine of a profile or of a captured matrix. Raises HardwareError."""
    from toposcope.simulator.capture import (  # noqa: PLC0415 - not in an agent
        CaptureError,
        machine_from_capture,
    )
    from toposcope.simulator.document import DocumentError  # noqa: PLC0415 - same
    from toposcope.simulator.faults import load_faults  # noqa: PLC0415 - same
    from toposcope.simulator.profile import load_profile  # noqa: PLC0415 - same

    try:
        if capture:
            host = getattr(arguments, "capture_host", None)
            machine = machine_from_capture(_read(capture), host=host)
        else:
            machine = load_profile(arguments.profile)
        if arguments.faults and arguments.faults.exists():
            # read it once here: the process that reads it later cannot report an error
            load_faults(arguments.faults)
    except (CaptureError, DocumentError) as error:
        raise HardwareError(str(error)) from error
    return machine


@contextlib.contextmanager
def simulated(machine: "Machine", faults: Path | None) -> Iterator[ProbeProcess]:
    """The process that probes a simulated machine: simulated NVML, and a temporary sysfs tree."""
    with _simulated(machine, faults) as described, described.probe_process() as process:
        yield process


@contextlib.contextmanager
def _simulated(machine: "Machine", faults: Path | None) -> Iterator[ProbeSource]:
    from toposcope.simulator.sysfs import write_sysfs  # noqa: PLC0415 - not in an agent

    with _temporary_sysfs() as root:
        write_sysfs(machine, root)
        opened = functools.partial(_open_simulated, machine, faults)
        yield ProbeSource(
            opened, root, is_simulated=True, has_known_nvlinks=machine.has_known_nvlinks
        )


@contextlib.contextmanager
def _recorded(file: str, recording: "Recording") -> Iterator[ProbeSource]:
    """A recorded machine. Raises HardwareError where the recording lacks an answer to a probe."""
    from toposcope.agent.probe import probe  # noqa: PLC0415 - only the worker loads what probes
    from toposcope.agent.sysfs import Sysfs  # noqa: PLC0415 - same
    from toposcope.simulator.recording import ReplayedNvml, write_recorded_sysfs  # noqa: PLC0415 - not in an agent

    with _temporary_sysfs() as root:
        try:
            write_recorded_sysfs(recording, root)
            # A trial here: an error in the process that probes has no message, and replaying cannot
            # hang.
            nvml = Nvml(ReplayedNvml(recording))
            probe(nvml, Sysfs(root), nvml.start())
        except Exception as error:  # a file from anybody can hold any nonsense
            raise HardwareError(f"{file}: cannot be replayed: {error}") from error
        simulated = "on a simulated machine " if recording.simulated else ""
        driver = recording.driver or "unknown"
        say(f"note: recorded {simulated}on {recording.date}, driver {driver}")
        yield ProbeSource(functools.partial(_open_replayed, recording), root, recording.simulated)


# Functions of the module, because a worker that has to be replaced gets its opener pickled.


def _open_simulated(machine: "Machine", faults: Path | None) -> Any:
    from toposcope.simulator.nvml import SimulatedNvml  # noqa: PLC0415 - not in an agent

    return SimulatedNvml(machine, faults_file=faults, wait=time.sleep)


def _open_replayed(recording: "Recording") -> Any:
    from toposcope.simulator.recording import ReplayedNvml  # noqa: PLC0415 - not in an agent

    return ReplayedNvml(recording)


@contextlib.contextmanager
def _temporary_sysfs() -> Iterator[Path]:
    import tempfile  # noqa: PLC0415 - it brings a dozen modules that no production agent needs

    with tempfile.TemporaryDirectory(prefix="toposcope-sys-") as folder:
        yield Path(folder) / "sys"


def _recording(profile: str) -> "Recording | None":
    """The recording in the file `profile`; None without such a file, or with other content."""
    from toposcope.simulator.recording import RecordingError, decode, is_recording  # noqa: PLC0415 - not in an agent

    file = Path(profile)
    try:
        content = read_small(profile) if file.is_file() else b""
        return decode(content, profile) if is_recording(content) else None
    except OSError as error:
        raise HardwareError(f"--profile {profile}: {error.strerror}") from error
    except RecordingError as error:
        raise HardwareError(str(error)) from error


def _read(capture: str) -> str:
    from toposcope.simulator.paste import text_of  # noqa: PLC0415 - not in an agent

    try:
        return text_of(read_small(capture))
    except OSError as error:
        raise HardwareError(f"--capture {capture}: {error.strerror}") from error
