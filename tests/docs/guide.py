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
        return match[1] + "".join(_steps(match[2], run)) + match[3]

    return _BLOCK.sub(block, page)


def _steps(text: str, run: Run) -> Iterator[str]:
    for step in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        if not step.startswith("$ "):
            yield step
            continue
        lines = step.splitlines()
        shown = 1 + next((i for i, line in enumerate(lines) if not line.endswith("\\")), 0)
        command = " ".join(line.removeprefix("$ ").rstrip("\\").strip() for line in lines[:shown])
        printed = run(command)
        expected = lines[shown:]
        if "..." not in expected or not _abridged(expected, printed.splitlines()):
            expected = printed.splitlines()
        yield "\n".join([*lines[:shown], *expected]) + "\n"


def _abridged(shown: list[str], printed: list[str]) -> bool:
    """Whether the parts around `...` stand in the output, in this order, the first at its beginning."""
    pattern = ".*".join(re.escape(part.strip("\n")) for part in "\n".join(shown).split("..."))
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
        done = subprocess.run([self._kubectl, *arguments], capture_output=True, text=True, timeout=60, check=False)
        if arguments[0] in _WRITES:
            self._afterwards()
        return done.stdout + done.stderr
