"""Mutants of admission policies: each clause of their CEL left out, and negated, on a real kube-apiserver."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO, Any, Final, cast

import yaml

from tools.mutants.mutant import COPY, ROOT, Mutant, UntestedError, current
from toposcope.api.yaml_text import load

KNOWN: Final[dict[str, Any]] = load((ROOT / "tests" / "mutants.yaml").read_bytes())
_TREE: Final = COPY / "policies"
_RESULTS: Final = COPY / "policies.json"
_LONGEST: Final = 60.0
"""Seconds that tests take on a policy that refuses what they wait for."""
_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|&&|\|\||[(\[{,)\]}]")


def paths() -> list[str]:
    """The files with policies."""
    return list(KNOWN["policies"])


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Every mutant of a file with this text: of its policy's conditions and validations."""
    for where, part in _expressions(list(yaml.safe_load_all(text))):
        for number, (was, changed) in enumerate(changes(part["expression"])):
            for becomes in changed:
                yield Mutant(path, f"{where} {number} {becomes}", where, " ".join(was.split()), becomes)


def changes(expression: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each clause of an expression in CEL, and the expression with that `dropped` and `negated`; the whole comes first.

    A clause is what `&&` and `||` join, at any depth.
    """
    yield expression, {"dropped": "true", "negated": f"!({expression})"}
    for clauses in _joined(expression):
        for index, (begin, end) in enumerate(clauses):
            first, last = (begin, clauses[1][0]) if index == 0 else (clauses[index - 1][1], end)
            negated = f"{expression[:begin]} !({expression[begin:end]}) {expression[end:]}"
            yield expression[begin:end], {"dropped": expression[:first] + expression[last:], "negated": negated}


def results(path: str) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant that was tried of the file as it is now, and whether a test failed."""
    known = _results().get(_state(path), {})
    yield from ((mutant, known[mutant.name]) for mutant in mutants(path, current(path)) if mutant.name in known)


def run(chosen: Iterable[Mutant], seconds: float | None) -> None:
    """Run the tests on each mutant; those for which there was no time have no result.

    Raises UntestedError when they fail without any change.
    """
    began = time.monotonic()
    shutil.rmtree(_TREE, ignore_errors=True)
    for folder in ("docs", "manifests", "tests", "tools", "toposcope"):
        shutil.copytree(ROOT / folder, _TREE / folder, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", _TREE)
    chosen = list(chosen)
    command, required = [sys.executable, "-m", "tools.mutants.runner"], os.environ | {"TOPOSCOPE_REQUIRE_REAL_API": "1"}
    with subprocess.Popen(
        command, cwd=_TREE, env=required, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runner:
        _try(chosen, seconds and began + seconds, partial(_fail, runner))


def _try(chosen: list[Mutant], end: float | None, fail: Callable[[str], bool]) -> None:
    if failed := [path for path in sorted({mutant.path for mutant in chosen}) if fail(path)]:
        raise UntestedError(f"the tests of {', '.join(failed)} fail without any change")
    for mutant in chosen:
        if end is not None and time.monotonic() + _LONGEST > end:
            return
        documents = list(yaml.safe_load_all(current(mutant.path)))
        part = dict(_expressions(documents))[mutant.where]
        number = int(mutant.name.split()[-2])
        part["expression"] = list(changes(part["expression"]))[number][1][mutant.becomes]
        (_TREE / mutant.path).write_text(yaml.safe_dump_all(documents), encoding="utf-8")
        killed = fail(mutant.path)
        shutil.copy(ROOT / mutant.path, _TREE / mutant.path)
        known = _results()
        known.setdefault(_state(mutant.path), {})[mutant.name] = killed
        _RESULTS.write_text(json.dumps(known, indent=1), encoding="utf-8")


def _fail(runner: "subprocess.Popen[str]", path: str) -> bool:
    """Whether a test of that policy fails. Raises UntestedError when that cannot be tried."""
    asked, answers = cast(IO[str], runner.stdin), cast(IO[str], runner.stdout)
    asked.write(json.dumps(["-xq", "-p", "no:cacheprovider", *KNOWN["policies"][path]]) + "\n")
    asked.flush()
    if not (answer := answers.readline()):
        raise UntestedError("no API server to try policies on: see above")
    return answer != "0\n"


def _results() -> dict[str, dict[str, bool]]:
    return json.loads(_RESULTS.read_text(encoding="utf-8")) if _RESULTS.exists() else {}


def _state(path: str) -> str:
    """What results are kept of: a file with these objects, whatever its comments say."""
    return f"{path} {zlib.crc32(json.dumps(list(yaml.safe_load_all(current(path)))).encode())}"


def _expressions(documents: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in documents:
        for kind in ("matchConditions", "validations"):
            for number, part in enumerate(document["spec"].get(kind, [])):
                yield f"{kind} {number}", part


def _joined(text: str) -> Iterator[list[tuple[int, int]]]:
    """Where the clauses are that `&&` and `||` join, in groups: each begins and ends at a bracket or comma."""
    begin, group = 0, list[tuple[int, int]]()
    outer = []
    for token in _TOKEN.finditer(f"{text})"):
        if token[0] in {"&&", "||"}:
            group.append((begin, token.start()))
            begin = token.end()
        elif token[0] in "([{":
            outer.append((begin, group))
            begin, group = token.end(), []
        elif token[0] in ",)]}":
            if group:
                yield [*group, (begin, token.start())]
            begin, group = token.end(), []
            if token[0] != "," and outer:
                begin, group = outer.pop()
