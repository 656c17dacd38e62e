"""Tries cases of one subject for a while, drawn by Hypothesis from a seed.

`python -m tools.fuzz.run SUBJECT SECONDS SEED BATCHES FILE` does so in a process of its own: one
that crashes, or eats its memory, is a finding and not the end. It writes seed and case into FILE
before each attempt, and prints what came of all as JSON.
"""

import faulthandler
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisWarning

from tools.fuzz.subject import Subject

_BATCH_CASES: Final = 100
_PATIENCE_SECONDS: Final = 10.0
"""Seconds of one attempt after which it counts as hung: each takes milliseconds."""
_SHOWN_CHARACTERS: Final = 2000
_GRACE_SECONDS: Final = 300.0
"""Seconds beyond its time that a child has, to make a failing case small."""
_MEMORY_BYTES: Final = 2 << 30
"""Bytes of address space: none of these inputs has more than some kilobytes."""
_TAIL_CHARACTERS: Final = 3000
PROFILE: Final = settings(
    database=None,
    deadline=None,
    derandomize=False,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
    print_blob=False,
    report_multiple_bugs=False,
)


class Result(msgspec.Struct):
    """The result of one subject."""

    subject: str
    outcomes: dict[str, int] = {}
    slowest: float = 0.0
    """Seconds."""
    finding: str = ""
    """The smallest case that fails, and how; empty when none does."""
    seed: int = 0
    """That of the batch which failed."""
    grew: float = 0.0
    """MiB of resident memory between the first cases and the last, in a process of its own."""

    @property
    def cases(self) -> int:
        """How many were tried."""
        return sum(self.outcomes.values())


def fuzz(
    subject: Subject,
    seconds: float,
    seed: int,
    batches: int | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    note: Callable[[int, Any], object] = lambda *_: None,
    batch: int = _BATCH_CASES,
    shrink: bool = True,
) -> Result:
    """Try batch after batch, each from the next seed, until time, count or a failure ends it.

    `note` gets the batch's seed and each case before it is tried. Without `shrink` a case that
    fails is reported as it was drawn.
    """
    outcomes: Counter[str] = Counter()
    result = Result(subject.name)
    case: Any = None

    def attempt(drawn: Any) -> None:
        nonlocal case
        case = drawn
        note(result.seed, case)
        began = clock()
        outcome = subject.attempt(case)
        result.slowest = max(result.slowest, clock() - began)
        outcomes[outcome] += 1

    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    draw = settings(PROFILE, max_examples=batch, phases=phases)
    began, number = clock(), 0
    while (batches is None or number < batches) and (number == 0 or clock() - began < seconds):
        result.seed = seed + number
        number += 1
        try:
            with warnings.catch_warnings():
                # Hypothesis describes cases to itself; large ones are wanted here.
                warnings.filterwarnings("ignore", "Generating overly large repr", HypothesisWarning)
                seeded(result.seed)(draw(given(subject.cases)(attempt)))()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            where = "".join(traceback.format_exception(error)[-6:])
            text = repr(case)
            shown = text[:_SHOWN_CHARACTERS]
            ending = "..." if len(text) > _SHOWN_CHARACTERS else ""
            result.finding = f"case: {shown}{ending}\n{where.rstrip()}"
            break
    result.outcomes = dict(outcomes)
    return result


def noted(path: Path, patience: float = _PATIENCE_SECONDS) -> Callable[[int, Any], None]:
    """Write each seed and case into a file.

    An attempt that then takes longer than `patience` ends this process.
    """

    def note(seed: int, case: Any) -> None:
        path.write_text(
            f"{seed}\n{repr(case)[:_SHOWN_CHARACTERS]}", encoding="utf-8", errors="backslashreplace"
        )
        faulthandler.dump_traceback_later(patience, exit=True)

    return note


def in_child(name: str, seconds: float, seed: int, batches: int | None) -> Result:
    """Fuzz one subject in a child process."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        note = Path(folder) / "case"
        arguments = (
            name,
            str(seconds),
            str(seed),
            str(batches or 0),
            str(note),
        )
        done = python(folder, seconds + _GRACE_SECONDS, "tools.fuzz.run", *arguments)
        if done.returncode == 0:
            return msgspec.json.decode(done.stdout, type=Result)
        noted_text = f"{seed}\nnone was begun"
        if note.exists():
            noted_text = note.read_text(encoding="utf-8", errors="replace")

    failed_seed, _, case = noted_text.partition("\n")
    end = done.stderr[-_TAIL_CHARACTERS:]
    finding = f"ended with {done.returncode}\ncase: {case}\n{end}"
    return Result(
        name,
        finding=finding.rstrip(),
        seed=int(failed_seed),
    )


def guided_in_child(name: str, seconds: float, seed: int) -> tuple[str, str]:
    """Let coverage choose the cases of a subject.

    Returns what came of it in a few words, and the finding if there is one.
    """
    if importlib.util.find_spec("atheris") is None:
        return "left out: atheris is not installed (it has no wheel for this platform)", ""

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        whole_seconds = max(1, int(seconds))
        flags = [
            f"-max_total_time={whole_seconds}",
            "-rss_limit_mb=2048",
            "-timeout=20",
            f"-seed={seed or 1}",
            f"-artifact_prefix={folder}/",
            "-print_final_stats=1",
        ]
        done = python(folder, seconds + _GRACE_SECONDS, "tools.fuzz.guided", name, *flags)

    match = re.search(r"^stat::number_of_executed_units: *(\d+)", done.stderr, re.MULTILINE)
    count = 0
    if match:
        count = int(match[1])
    finding = ""
    if done.returncode != 0:
        finding = done.stderr[-_TAIL_CHARACTERS:] + done.stdout[-_TAIL_CHARACTERS:]
    return f"{count:,} cases", finding


def python(folder: str, seconds: float, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module with temporary files in a folder.

    A module that takes longer than `seconds` is killed, and the result says so.
    """
    command, environment = [sys.executable, "-m", *arguments], {**os.environ, "TMPDIR": folder}
    try:
        return subprocess.run(  # noqa: S603 - our own program
            command, capture_output=True, text=True, timeout=seconds, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(
            command, -signal.SIGKILL, "", f"did not end within {seconds:g} s"
        )


def main() -> None:
    """What runs in the child."""
    from tools.fuzz.subjects import SUBJECTS  # noqa: PLC0415 - they are what may crash

    name, seconds_text, seed_text, batches_text, file = sys.argv[1:]
    seconds = float(seconds_text)
    seed = int(seed_text)
    batches = int(batches_text) or None
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))

    subject = SUBJECTS[name]
    note = noted(Path(file))
    process = psutil.Process()
    fuzz(subject, 0.0, seed - 1, 1, note=note)  # loads what is loaded late
    before = process.memory_info().rss
    result = fuzz(subject, seconds, seed, batches, note=note)
    faulthandler.cancel_dump_traceback_later()

    after = process.memory_info().rss
    grown = max(0, after - before)
    result.grew = grown / (1 << 20)
    encoded = msgspec.json.encode(result)
    sys.stdout.buffer.write(encoded)


if __name__ == "__main__":
    main()
