"""Recording a probe: everything that NVML and sysfs answered, in a file that anyone may send us."""

import os
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path

from toposcope import __version__
from toposcope.agent.raw import RawNode
from toposcope.cli.hardware import ProbeSource
from toposcope.cli.recording.nvml import RecordingNvml, calls_in
from toposcope.cli.recording.standins import StandIns
from toposcope.cli.recording.sysfs import recorded_sysfs
from toposcope.cli.streams import say
from toposcope.simulator.recording import Call, Raised, Recording, Value, encode


def record(
    source: ProbeSource, file: Path, today: date, clock: Callable[[], int] = time.perf_counter_ns
) -> RawNode:
    """Probe once, as always, and write every question and its answer into `file`.

    A line on standard error says so. A probe that fails is recorded, too, up to the call that did
    not return. Raises what `ProbeProcess.probe` raises, OSError when the file cannot be written,
    and RecordingError.
    """
    # Memory that crosses the processes: what the machine really answered never reaches a disk.
    with os.fdopen(os.memfd_create("recording"), "w+b", buffering=0) as journal:
        listening = source._replace(
            open_nvml=lambda: RecordingNvml(source.open_nvml(), journal.write, clock)
        )
        try:
            with listening.probe_process() as process:
                return process.probe()
        finally:
            journal.seek(0)
            calls = calls_in(journal.read())
            _write(file, _recording(calls, source, today))


def _recording(calls: list[Call], source: ProbeSource, today: date) -> Recording:
    stand_ins = StandIns()
    recorded_calls = [stand_ins.call(call) for call in calls]
    # The code of the probe reads sysfs a second time.
    entries = recorded_sysfs(source.sysfs, has_vf_rails=source.has_vf_rails)
    return Recording(
        toposcope=__version__,
        pynvml=version("nvidia-ml-py"),
        driver=_driver(calls),
        date=today.isoformat(),
        simulated=source.is_simulated,
        calls=recorded_calls,
        sysfs=[stand_ins.entry(entry) for entry in entries],
    )


def _driver(calls: list[Call]) -> str | None:
    """The driver's version, if NVML said it."""
    for call in calls:
        if call.name == "nvmlSystemGetDriverVersion" and isinstance(call.answer, Value):
            return str(call.answer.value)
    return None


def _write(file: Path, recording: Recording) -> None:
    content = encode(recording)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)

    errors = 0
    microseconds = 0.0
    for call in recording.calls:
        errors += isinstance(call.answer, Raised)
        microseconds += call.us
    milliseconds = microseconds / 1000
    kilobytes = len(content) / 1000
    say(
        f"recorded {file}: {len(recording.calls)} NVML calls, "
        f"{errors} of them answered with an error, "
        f"{milliseconds:.1f} ms, {kilobytes:.0f} kB"
    )
