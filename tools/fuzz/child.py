"""Each subject in a process of its own: one that crashes it, or eats its memory, is a finding and not the end."""

import dataclasses
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.fuzz.engine import Result, fuzz
from tools.fuzz.subjects import SUBJECTS

_GRACE: Final = 300.0
"""Seconds beyond its time that a child has, to make a failing case small."""
_MEMORY: Final = 2 << 30
"""Bytes of address space: none of these inputs has more than some kilobytes."""
_SHOWN: Final = 4000
_TAIL: Final = 3000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended."""

    result: Result | None
    """None when it did not live to tell."""
    finding: str
    grew: float
    """MiB of resident memory between its first cases and its last."""
    seed: int = 0


def in_child(name: str, seconds: float, seed: int, batches: int | None) -> Ending:
    """Fuzz one subject in a child process."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        note = Path(folder) / "case"
        command = [
            sys.executable,
            "-m",
            "tools.fuzz.child",
            name,
            str(seconds),
            str(seed),
            str(batches or 0),
            str(note),
        ]
        environment = {**os.environ, "TMPDIR": folder}
        try:
            done = subprocess.run(  # noqa: S603 - our own program
                command, capture_output=True, text=True, timeout=seconds + _GRACE, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            return Ending(None, f"did not end\ncase: {_read(note)}", 0.0, seed)
        if done.returncode:
            how = f"ended with {done.returncode}\ncase: {_read(note)}\n{done.stderr[-_TAIL:]}"
            return Ending(None, how, 0.0, seed)
    said = json.loads(done.stdout)
    result = Result(**{**said["result"], "outcomes": Counter(said["result"]["outcomes"])})
    return Ending(result, result.finding, said["grew"], seed)


def guided_in_child(name: str, seconds: float, seed: int) -> tuple[str, str]:
    """Let coverage choose the cases of a subject: what came of it in a few words, and the finding if there is one."""
    try:
        import atheris  # noqa: F401, PLC0415 - is it there at all?
    except ImportError:
        return "left out: atheris is not installed (it has no wheel for this platform)", ""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        command = [
            sys.executable,
            "-m",
            "tools.fuzz.guided",
            name,
            f"-max_total_time={max(1, int(seconds))}",
            f"-seed={seed or 1}",
        ]
        command += [f"-artifact_prefix={folder}/", "-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=20"]
        done = subprocess.run(  # noqa: S603 - our own program
            command, capture_output=True, text=True, timeout=seconds + _GRACE, check=False,
            env={**os.environ, "TMPDIR": folder},
        )  # fmt: skip
    counted = re.search(r"^stat::number_of_executed_units: *(\d+)", done.stderr, re.MULTILINE)
    told = f"{int(counted[1]) if counted else 0:,} cases"
    return told, "" if done.returncode == 0 else done.stderr[-_TAIL:] + done.stdout[-_TAIL:]


def _read(note: Path) -> str:
    return note.read_text(encoding="utf-8", errors="replace")[:_SHOWN] if note.exists() else "none was begun"


def main() -> int:
    """What runs in the child: the result as JSON."""
    name, seconds, seed, batches, note = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    subject = SUBJECTS[name]
    fuzz(subject, 0.0, int(seed) - 1, 1)  # loads what is loaded late
    before = _resident()
    with Path(note).open("w", encoding="utf-8", errors="backslashreplace") as file:

        def about(case: Any) -> None:
            file.seek(0)
            file.truncate()
            file.write(repr(case)[:_SHOWN])
            file.flush()

        result = fuzz(subject, float(seconds), int(seed), int(batches) or None, about=about)
    grew = max(0.0, _resident() - before)
    json.dump({"result": {**_fields_of(result), "outcomes": dict(result.outcomes)}, "grew": grew}, sys.stdout)
    return 0


def _fields_of(result: Result) -> dict[str, Any]:
    """The fields of a result by name."""
    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}


def _resident() -> float:
    """This process's resident memory in MiB, now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / (1 << 20)


if __name__ == "__main__":
    sys.exit(main())
