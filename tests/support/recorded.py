"""What tests ask the product, for tests/test_sentences.py to ask again: a plugin of pytest that writes it to a file."""

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from toposcope.integrations.framework.system import ClusterFacts

_FILE = "TOPOSCOPE_RECORD_QUESTIONS"
_CHECKING = ("from tests.support.checking import", "from tests.support.checked_cluster import")
_SERVER = "from tests.support.api import"
_TEST = "PYTEST_CURRENT_TEST"


@dataclass(frozen=True)
class ReadQuestion:
    """A document that a system was to read."""

    systems: tuple[str, ...]
    document: Any
    cluster: ClusterFacts
    before: Any


@dataclass(frozen=True)
class CheckQuestion:
    """A workload that was to be checked on a cluster of these objects."""

    workload: Any
    objects: tuple[Any, ...]
    served: Mapping[str, bool]
    beside: tuple[Any, ...]


Question = ReadQuestion | CheckQuestion
_questions: dict[str, Question] = {}


def record(question: Question) -> None:
    """Keep it by the name of the test that asks, if somebody records."""
    if _FILE not in os.environ:
        return
    current_test = os.environ.get(_TEST, "")
    name = current_test.partition(" ")[0]
    number = len(_questions)
    _questions[f"{name} {number}"] = question


def pytest_sessionfinish() -> None:
    Path(os.environ[_FILE]).write_bytes(pickle.dumps(_questions))


def asking_tests() -> list[str]:
    """The files of tests that check documents, and use no API server."""
    tests = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        asks = any(line in text for line in _CHECKING)
        if asks and _SERVER not in text:
            tests.append(str(path))
    return tests


def record_questions(file: Path, tests: Sequence[str]) -> None:
    """Run these tests, and write all that they asked."""
    run_recording("tests.support.recorded", {_FILE: str(file)}, tests)


def run_recording(plugin: str, environment: Mapping[str, str], tests: Sequence[str]) -> None:
    """Run these tests with a plugin of pytest that records; `environment` tells it where to."""
    command = [sys.executable, "-m", "pytest", "-q"]
    command += ["-p", "no:cacheprovider"]
    command += ["-p", plugin]
    command += tests
    subprocess.run(
        command,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
    )


def recorded(file: Path) -> dict[str, Question]:
    """The questions of a file, by the test that asked and a number."""
    questions: dict[str, Question] = pickle.loads(file.read_bytes())  # noqa: S301 - this program wrote it
    return questions
