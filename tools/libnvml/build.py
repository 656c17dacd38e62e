"""Our own `libnvidia-ml.so.1`.

It is compiled once; its tables are written from simulated and recorded machines. `pynvml` finds it
as it finds the driver's: through the loader, in a process that was started with `environment`.
"""

import hashlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pynvml

from tools.apiserver.build import cache_root, made_once
from toposcope.agent.nvml.gateway import FUNCTION_NOT_FOUND, Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.cli.recording.nvml import RecordingNvml, calls_in
from toposcope.errors import ToposcopeError
from toposcope.simulator import recording
from toposcope.simulator.nvml import SimulatedNvml

_SOURCE: Final = Path(__file__).with_name("nvml.c")
_NAME: Final = "libnvidia-ml.so.1"
_FLAGS: Final = (
    "-std=c11",
    "-O1",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
)
_SYMBOLS: Final = {
    "nvmlInit": "nvmlInitWithFlags",
    "nvmlDeviceGetCount": "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex": "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetNvLinkRemotePciInfo": "nvmlDeviceGetNvLinkRemotePciInfo_v2",
}
"""What the binding calls where its own function has another name."""


class MissingCompilerError(ToposcopeError):
    """There is no C compiler; the message says how to get one."""


def library() -> Path:
    """The folder that holds it. Raises MissingCompilerError."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingCompilerError("no C compiler: apt-get install gcc libc6-dev")

    def make(folder: Path) -> None:
        command = [
            compiler,
            *_FLAGS,
            f"-Wl,-soname,{_NAME}",
            "-o",
            str(folder / _NAME),
            str(_SOURCE),
        ]
        subprocess.run(command, check=True)

    key = hashlib.sha256(_SOURCE.read_bytes() + repr(_FLAGS).encode()).hexdigest()[:16]
    return made_once(cache_root() / "libnvml" / key, lambda folder: (folder / _NAME).exists(), make)


def environment(folder: Path, table: Path) -> dict[str, str]:
    """What a process has to be started with, to find the library in `folder` and its table."""
    return {"LD_LIBRARY_PATH": str(folder), "NVML_TABLE": str(table)}


def write_table(file: Path, lines: Iterable[str], *more: str) -> None:
    """Put a table in place at once; of equal questions the last line counts."""
    text = ""
    for line in (*lines, *more):
        text += f"{line}\n"
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)


def lines_of(machine: SimulatedNvml | recording.Recording) -> list[str]:
    """A table of what a probe asks and of what events there are.

    A recorded machine has no events.
    """
    calls = machine.calls if isinstance(machine, recording.Recording) else _calls(machine)
    lines: list[str] = []
    for call in calls:
        lines += _lines(call)
    return lines


def _calls(machine: SimulatedNvml) -> list[recording.Call]:
    journal: list[bytes] = []
    clock = itertools.count().__next__
    nvml = Nvml(RecordingNvml(machine, journal.append, clock))
    refusal = nvml.start()
    if not refusal:
        probe(nvml, Sysfs(Path(os.devnull)), refusal)
        count = nvml.value("nvmlDeviceGetCount") or 0
        for index in range(count):
            handle = nvml.value("nvmlDeviceGetHandleByIndex", index)
            if handle:
                nvml.ask("nvmlDeviceGetSupportedEventTypes", handle)
    return calls_in(b"".join(journal))


def _lines(call: recording.Call) -> Iterator[str]:
    words = [_SYMBOLS.get(call.name, call.name)]
    for argument in call.arguments:
        if isinstance(argument, list):
            continue
        number = _number(argument)
        if number:
            words.append(number)
    question = " ".join(words)

    answer = call.answer
    if not isinstance(answer, recording.Fields):
        reply = _reply(answer)
        yield f"{question} = {reply}"
        return

    yield f"{question} = 0"
    for field in answer.fields:
        asked = f"{field.field} {field.scope}"
        reply = f"{field.status} {field.type} {field.value}"
        yield f"{question} {asked} = {reply}"


def _reply(answer: recording.Answer) -> str:
    match answer:
        case recording.Filled(struct) | (recording.StructMemory() as struct):
            reply = f"0 {_struct(struct)}"
        case recording.Value(list() as numbers):
            reply = f"0 {' '.join(map(str, numbers))}"
        case recording.Value(value):
            reply = f"0 {'' if value is None else value}"
        case recording.Raised(error="NVMLError", code=code):
            reply = str(code)
        case recording.Raised(error="UnicodeDecodeError"):
            reply = "garbage"
        case recording.Raised():
            reply = str(FUNCTION_NOT_FOUND)
        case recording.Silence():
            reply = "hang"
        case _:
            reply = "0"
    return reply


def _number(argument: recording.Argument) -> str:
    """An argument as the table has it: a handle's number, a struct's version, or nothing."""
    if isinstance(argument, recording.Reference):
        return "" if argument.version is None else str(argument.version)
    return str(argument).removeprefix("gpu:")


def _struct(memory: recording.StructMemory) -> str:
    content = bytes.fromhex(memory.bytes)
    kind = getattr(pynvml, memory.type)
    struct: Any = kind.from_buffer_copy(content)
    if memory.type == "nvmlPciInfo_t":
        return f"{struct.pciDeviceId} {struct.busId}"

    if "Platform" in memory.type:  # the binding types its numbers as characters
        guid = content[4:20].hex()
        chassis = content[20:36].hex()
        numbers = _words(content[36:41])
        return f"{guid} {chassis} {numbers}"

    uuid = bytes(struct.clusterUuid)
    cluster = uuid.hex()
    fabric_numbers = _fabric_numbers(struct)
    numbers = _words(fabric_numbers)
    return f"{cluster} {numbers}"


def _words(numbers: Iterable[int]) -> str:
    return " ".join(str(number) for number in numbers)


def _fabric_numbers(struct: Any) -> list[int]:
    has_cliques = hasattr(struct, "cliques")
    clique = struct.numCliques if has_cliques else struct.cliqueId
    state = struct.state & 0xFF
    numbers = [struct.status, clique, state]
    for name in ("healthMask", "healthSummary"):
        if hasattr(struct, name):
            numbers.append(getattr(struct, name))

    if has_cliques:
        entries = struct.cliques[: struct.numCliques]
        for entry in entries:
            numbers.append(entry.type)
            numbers.append(entry.id)
    return numbers
