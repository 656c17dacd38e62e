"""The command: draw a sample, run mutmut on it, compare two results."""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

import tools.mutants

_ROOT: Final = Path(__file__).parent.parent.parent
_CONFIG: Final = "[tool.mutmut]"
_COPIED: Final = ("toposcope", "tools", "docs", "manifests", "README.md", "Makefile")
_NOT_COPIED: Final = shutil.ignore_patterns("node_modules", "__pycache__", "static")
_SURVIVED: Final = ("survived", "no tests")
_MISSING: Final = "no such mutant"
_LOG_CHARACTERS: Final = 8000
"""Of the end of a log that a failure prints."""


@dataclass(frozen=True)
class Room:
    """Code to change, and the tests that should notice; both as paths from the root."""

    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]

    def has(self, path: str) -> bool:
        """Whether this file of the product belongs to the room."""
        return any(fnmatch(path, pattern) for pattern in self.code)


ROOMS: Final = (
    Room(
        "hierarchy",
        code=("toposcope/hierarchy/*.py",),
        tests=("tests/hierarchy", "tests/api", "tests/planning"),
    ),
    Room(
        "placement",
        code=("toposcope/placement/*.py",),
        tests=(
            "tests/placement",
            "tests/cli/test_check.py",
            "tests/integrations/test_kueue_queues.py",
            "tests/integrations/dynamo",
            "tests/integrations/grove",
            "tests/integrations/kai",
            "tests/integrations/kueue",
        ),
    ),
    Room(
        "assess",
        code=("toposcope/controller/assess/*.py",),
        tests=(
            "tests/controller/test_assess.py",
            "tests/controller/test_health.py",
            "tests/controller/test_level_order.py",
            "tests/controller/test_levels_documented.py",
            "tests/controller/test_rails.py",
            "tests/controller/test_segments.py",
            "tests/controller/test_thin_evidence.py",
        ),
    ),
    Room(
        "election",
        code=("toposcope/controller/election.py",),
        tests=("tests/controller/test_election.py",),
    ),
    Room(
        "fence",
        code=("toposcope/controller/fence.py",),
        tests=("tests/controller/test_fence.py",),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; the exit code is 1 when mutants were lost."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "draw":
            print("\n".join(draw(options.seed, options.count)))
            return 0
        case "run":
            return _run(options)
    before = _read_statuses(options.before)
    after = _read_statuses(options.after)
    lost = lost_mutants(before, after)
    _print_by_room("noticed before, and no longer", lost, before)
    return 1 if lost else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description=tools.mutants.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)

    drawing = commands.add_parser("draw", help="print the names of a sample of mutants")
    drawing.add_argument("--seed", type=int, default=1)
    drawing.add_argument("--count", type=int, default=1000)

    running = commands.add_parser("run", help="run mutmut on a sample")
    running.add_argument("sample", type=Path, help="a file with one name of a mutant a line")
    running.add_argument(
        "--tests",
        type=Path,
        default=_ROOT / "tests",
        help="default: this tree's",
    )
    running.add_argument(
        "--results", type=Path, help="write the status of each mutant to this file"
    )
    running.add_argument(
        "--jobs",
        type=int,
        default=2,
        help="mutants tested at the same time",
    )
    running.add_argument(
        "--more",
        action="append",
        default=[],
        metavar="ROOM=PATH",
        help="run these tests, too, such as placement=tests/planning",
    )

    losing = commands.add_parser("lost", help="say what was noticed before, and no longer is")
    losing.add_argument("before", type=Path)
    losing.add_argument("after", type=Path)
    return parser


def draw(seed: int, count: int) -> list[str]:
    """Names of mutants of all rooms: the same for the same code and seed."""
    names: list[str] = []
    product = _ROOT / "toposcope"
    for path in sorted(product.rglob("*.py")):
        relative = path.relative_to(_ROOT)
        if _room_of_file(str(relative)):
            names += _mutants_of(path, relative)

    count = min(count, len(names))
    rng = random.Random(seed)
    sample = rng.sample(names, count)
    return sorted(sample)


def _mutants_of(path: Path, relative: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    mutated = mutate_file_contents(str(relative), text)
    return [get_mutant_name(relative, name) for name in mutated.mutant_names]


def lost_mutants(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Mutants that the tests before noticed, and those after do not."""
    lost = []
    for name, status in after.items():
        was_noticed = before.get(name, _MISSING) not in (*_SURVIVED, _MISSING)
        if was_noticed and status in _SURVIVED:
            lost.append(name)
    return lost


def _run(options: argparse.Namespace) -> int:
    text = options.sample.read_text(encoding="utf-8")
    names = text.split()
    statuses: dict[str, str] = {}
    for room in ROOMS:
        in_room = [name for name in names if _room_of(name) == room.name]
        if not in_room:
            continue
        began = time.monotonic()
        tests = [*room.tests, *_more_tests(options.more, room)]
        with tempfile.TemporaryDirectory() as folder:
            workspace = Path(folder)
            _copy_tree(workspace, options.tests)
            existing = _existing(workspace, tests)
            _configure(workspace, room, existing)
            statuses |= _statuses(workspace, in_room, jobs=options.jobs)
        seconds = time.monotonic() - began
        print(f"{room.name}: {len(in_room)} mutants in {seconds:.0f} s", flush=True)

    if options.results:
        document = json.dumps(statuses, indent=1)
        options.results.write_text(document, encoding="utf-8")
    survivors = []
    for name, status in statuses.items():
        if status in _SURVIVED:
            survivors.append(name)
    _print_by_room("survived", survivors, statuses)
    return 0


def _read_statuses(results: Path) -> dict[str, str]:
    text = results.read_text(encoding="utf-8")
    statuses: dict[str, str] = json.loads(text)
    return statuses


def _more_tests(more: Iterable[str], room: Room) -> list[str]:
    """The paths that `--more ROOM=PATH` names for this room."""
    paths = []
    for text in more:
        room_name, _, path = text.partition("=")
        if room_name == room.name:
            paths.append(path)
    return paths


def _room_of(name: str) -> str:
    """The room of a mutant, empty if it is of none."""
    module, _, _ = name.rpartition(".")
    path = module.replace(".", "/")
    return _room_of_file(f"{path}.py")


def _room_of_file(path: str) -> str:
    for room in ROOMS:
        if room.has(path):
            return room.name
    return ""


def _copy_tree(workspace: Path, tests: Path) -> None:
    for name in _COPIED:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(
                source,
                workspace / name,
                symlinks=True,
                ignore=_NOT_COPIED,
            )
        else:
            shutil.copy2(source, workspace / name)
    shutil.copytree(
        tests,
        workspace / "tests",
        symlinks=True,
        ignore=_NOT_COPIED,
    )


def _existing(workspace: Path, tests: Iterable[str]) -> list[str]:
    """Those of the tests that this commit has; the others are printed."""
    existing = []
    for path in tests:
        if (workspace / path).exists():
            existing.append(path)
        else:
            print(f"these tests have no {path}")
    return existing


def _configure(workspace: Path, room: Room, tests: Sequence[str]) -> None:
    """Write a pyproject.toml that has mutmut change this room and run these tests."""
    original = _ROOT / "pyproject.toml"
    text = original.read_text(encoding="utf-8")
    document = tomllib.loads(text)
    tools = document["tool"]
    settings: dict[str, Any] = tools["mutmut"]
    settings["only_mutate"] = list(room.code)
    settings["pytest_add_cli_args_test_selection"] = list(tests)

    before, _, _ = text.partition(_CONFIG)
    lines = [before, _CONFIG]
    for key, value in settings.items():
        written = json.dumps(value)
        lines.append(f"{key} = {written}")
    lines.append("")
    config = "\n".join(lines)
    changed = workspace / "pyproject.toml"
    changed.write_text(config, encoding="utf-8")


def _statuses(workspace: Path, names: Sequence[str], *, jobs: int) -> dict[str, str]:
    """Run mutmut in the workspace, and read what became of each mutant.

    Exits where mutmut fails, as it does when tests fail on unchanged code.
    """
    mutmut = Path(sys.executable).with_name("mutmut")
    command = [str(mutmut), "run", "--max-children", str(jobs), *names]
    log = workspace / "mutmut.log"
    with log.open("wb") as output:
        run = subprocess.run(
            command,
            cwd=workspace,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if run.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        sys.exit(f"mutmut failed: {text[-_LOG_CHARACTERS:]}")

    exit_codes: dict[str, int | None] = {}
    for path in (workspace / "mutants").rglob("*.meta"):
        text = path.read_text(encoding="utf-8")
        document = json.loads(text)
        exit_codes |= document["exit_code_by_key"]
    statuses = {}
    for name in names:
        statuses[name] = _MISSING
        if name in exit_codes:
            exit_code = exit_codes[name]
            statuses[name] = status_by_exit_code[exit_code]
    return statuses


def _print_by_room(what: str, names: Iterable[str], tried: Iterable[str]) -> None:
    tried_rooms = Counter(_room_of(name) for name in tried)
    in_rooms: dict[str, list[str]] = {}
    for name in names:
        room_name = _room_of(name)
        in_rooms.setdefault(room_name, []).append(name)

    for room in ROOMS:
        in_room = in_rooms.get(room.name, [])
        count = len(in_room)
        total = tried_rooms[room.name]
        print(f"{room.name}: {count} of {total} {what}")
        for name in in_room:
            print(f"  {name}")


if __name__ == "__main__":
    sys.exit(main())
