"""Mutants of Python: mutmut changes functions, and runs for each change the tests that call the function.

It leaves alone module level, annotations, and decorated functions, properties among them. Here, too, is left out what
says little: another case of a text that is changed otherwise as well, `strict=` of a zip, and what is logged.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from mutmut.configuration import config
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents

from tools.mutants.mutant import COPY, ROOT, Mutant, UntestedError, current

_ALIVE: Final = {0, 5, 33}
"""mutmut's exit codes where tests pass, and where none of the tests calls the function."""
# What is started in the background would ignore the interrupt that ends it in time, and has it save what it found.
_MUTMUT: Final = "import signal; signal.signal(2, signal.default_int_handler); from mutmut.__main__ import cli; cli()"
_STRICT: Final = re.compile(r",( strict=\w+)?\s*(?=\)|$)")


def paths() -> list[str]:
    """The files that `[tool.mutmut]` in pyproject.toml names."""
    files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "toposcope").rglob("*.py"))
    return [file for file in files if config().should_mutate(file)]


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Every mutant of a file with this text."""
    made = _mutated(path, text)
    lines = made.code.splitlines()

    def body(function: str) -> Counter[str]:
        span = made.line_span_by_function_name[function]
        return Counter(re.sub(r"__mutmut_\w+", "", line).strip() for line in lines[span.start - 1 : span.end])

    for name in made.mutant_names:
        texts = body(f"{_function(name)}__mutmut_orig"), body(name)
        was, becomes = (" ".join((one - other).elements()) for one, other in (texts, texts[::-1]))
        if was.lower() == becomes.lower() or _STRICT.sub("", was) == _STRICT.sub("", becomes) or was.startswith("log."):
            continue
        full = f"{path.removesuffix('.py').replace('/', '.')}.{name}".replace(".__init__.", ".")
        # `plural` of `x_plural`, `Fence.enter` of `xǁFenceǁenter`.
        yield Mutant(path, full, _function(name)[2:].replace("ǁ", "."), was, becomes)


def results(path: str) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant that was tried of the file as it is now, and whether a test failed."""
    file = COPY / f"{path}.meta"
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"exit_code_by_key": {}}
    hashes = _mutated(path, current(path)).hash_by_function_name
    for mutant in mutants(path, current(path)):
        code, function = known["exit_code_by_key"].get(mutant.name), _function(mutant.name)
        if code is not None and hashes[function] == known["hash_by_function_name"].get(function):
            yield mutant, code not in _ALIVE


def run(chosen: Iterable[Mutant], seconds: float | None) -> None:
    """Run the tests on each mutant; those for which there was no time have no result.

    Raises UntestedError with the end of what mutmut says.
    """
    # What was deleted would stay in the copy, and data as it was; which tests call what is asked again, too.
    shutil.rmtree(COPY / "tests", ignore_errors=True)
    for file in (COPY / "toposcope").rglob("*.*"):
        if file.is_file() and file.suffix not in {".py", ".meta", ".spans"}:
            file.unlink()
    COPY.mkdir(exist_ok=True)
    (COPY / "mutmut-stats.json").unlink(missing_ok=True)
    # Each mutant has a process of its own, and in it the embedded API server starts in no time.
    environment = os.environ | {"KUBEBUILDER_ASSETS": os.devnull}
    command = [sys.executable, "-c", _MUTMUT, "run", *(mutant.name for mutant in chosen)]
    log = COPY / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output) as mutmut,
    ):
        try:
            failed = mutmut.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            mutmut.send_signal(signal.SIGINT)
            failed = False
    if failed:
        raise UntestedError("\n".join(re.split(r"[\r\n]+", log.read_text(encoding="utf-8"))[-40:]))


@cache
def _mutated(path: str, text: str) -> MutatedFile:
    return mutate_file_contents(path, text)


def _function(name: str) -> str:
    return name.rpartition(".")[2].partition("__mutmut_")[0]
