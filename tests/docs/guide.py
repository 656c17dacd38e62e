"""Pages with commands, as somebody reads them: each `$` line is run, and what it prints must stand below it.

`...` on a line of its own stands for lines left out. TOPOSCOPE_WRITE_GUIDES=1 writes the output into the pages.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from toposcope.cli.main import main

_BLOCK = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)
_WRITES = ("apply", "label", "annotate", "create", "delete", "patch")

Run = Callable[[str], str]


def chapter_of(page: Path, heading: str) -> str:
    """What stands on a page between this heading of the second level and the next one."""
    text = page.read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {heading}\n")
    assert found, f"{page} has no chapter {heading}"
    chapter, _, _ = rest.partition("\n## ")
    return chapter


def compare(page: Path, expected: str, printed: str) -> None:
    """Compare a part of a page with what its commands printed; with TOPOSCOPE_WRITE_GUIDES=1 write that instead."""
    if os.environ.get("TOPOSCOPE_WRITE_GUIDES") == "1":
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(expected, printed), encoding="utf-8")
        return
    assert printed == expected


def as_run(page: str, run: Run) -> str:
    """The page with what its commands print now; an abridged output stays as it is while its lines are all there."""

    def block(match: re.Match[str]) -> str:
        begin, text, end = match.groups()
        steps = "".join(_steps(text, run))
        return begin + steps + end

    return _BLOCK.sub(block, page)


def _steps(text: str, run: Run) -> Iterator[str]:
    for step in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        if not step.startswith("$ "):
            yield step
            continue
        lines = step.splitlines()
        length = _command_length(lines)
        command = _joined(lines[:length])
        expected = lines[length:]
        printed = run(command).splitlines()
        if "..." not in expected or not _abridged(expected, printed):
            expected = printed
        yield "\n".join([*lines[:length], *expected]) + "\n"


def _command_length(lines: list[str]) -> int:
    """How many lines the command takes: each but the last ends with a backslash."""
    for number, line in enumerate(lines, 1):
        if not line.endswith("\\"):
            return number
    return 1


def _joined(lines: list[str]) -> str:
    """The command of its lines."""
    parts = []
    for line in lines:
        part = line.removeprefix("$ ").rstrip("\\")
        parts.append(part.strip())
    return " ".join(parts)


def _abridged(shown: list[str], printed: list[str]) -> bool:
    """Whether the parts around `...` stand in the output, in this order, the first at its beginning."""
    parts = []
    for part in "\n".join(shown).split("..."):
        parts.append(re.escape(part.strip("\n")))
    pattern = ".*".join(parts)
    return re.match(pattern, "\n".join(printed), re.DOTALL) is not None


class SavedShell:
    """Runs `toposcope` in this process, on a saved cluster where a command names none."""

    def __init__(self, cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster = cluster
        self._capsys = capsys

    def __call__(self, command: str) -> str:
        program, *arguments = shlex.split(command)
        assert program == "toposcope", f"this page runs toposcope, not {program}"
        if "--from" not in arguments:
            arguments += ["--from", self._cluster]
        self._capsys.readouterr()
        main(arguments)
        said = self._capsys.readouterr()
        return said.out + said.err


class Shell:
    """Runs the commands of guides: `toposcope` in this process, `kubectl` as the program it is.

    The API server has the demo's nodes and the CRDs of other projects; after each `kubectl` that writes, `afterwards`
    does what the cluster's programs would do.
    """

    def __init__(self, kubectl: str, capsys: pytest.CaptureFixture[str], afterwards: Callable[[], None]) -> None:
        self._kubectl = kubectl
        self._capsys = capsys
        self._afterwards = afterwards

    def __call__(self, command: str) -> str:
        program, *arguments = shlex.split(command)
        if program == "toposcope":
            self._capsys.readouterr()
            main(arguments)
            said = self._capsys.readouterr()
            return said.out + said.err
        assert program == "kubectl", f"a guide runs toposcope and kubectl, not {program}"
        if arguments[0] == "toposcope":
            return self(shlex.join(arguments))
        done = subprocess.run(
            [self._kubectl, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if arguments[0] in _WRITES:
            self._afterwards()
        return done.stdout + done.stderr
