"""Pages with commands, as somebody reads them: each `$` line is run, and what it prints must stand below it.

Commands are run in the repository's root, against the demo's nodes on an API server with the CRDs of other projects and
one pass of the controller after each `kubectl` that writes. `...` on a line of its own stands for lines left out.
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator

import pytest
from toposcope.cli.main import main

_BLOCK = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)
_WRITES = ("apply", "label", "annotate", "create", "delete", "patch")

Run = Callable[[str], str]


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


class Shell:
    """Runs the commands of guides: `toposcope` in this process, `kubectl` as the program it is."""

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
