"""What tests have the controller look at, for tests/test_sentences.py to look at again: a plugin of pytest.

A test asserts messages, so it ends early where each sentence of the product is a code; its looks do not.
"""

from __future__ import annotations

import functools
import os
import pickle
import tempfile
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.paths import ROOT
from tests.support.recorded import run_recording

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from tests.support.cluster import History
    from toposcope.controller.segments import SegmentTopology
    from toposcope.hierarchy.catalogue import Catalogue
    from toposcope.hierarchy.node import NodeFacts

_FILE = "TOPOSCOPE_RECORD_LOOKS"
_TEST = "PYTEST_CURRENT_TEST"
_TESTS = "tests/controller"
_NAMES = ("test_assess*.py", "test_availability.py", "test_retained_levels.py")


@dataclass(frozen=True)
class Look:
    """A look of a history, and what was changed before it."""

    nodes: Sequence[NodeFacts]
    after: float
    children: Sequence[SegmentTopology]
    spec: dict[str, Any]
    catalogue: Catalogue
    preferred: Sequence[str]
    bound: Container[str] | None
    by_value: Mapping[str, str]
    is_first: bool
    """Whether the controller has just started."""
    is_single: bool


_looks: dict[str, tuple[History, list[Look]]] = {}
_memories: dict[str, object] = {}


def record(history: History, nodes: Sequence[NodeFacts], after: float, children: Sequence[SegmentTopology]) -> None:
    """Keep a look by the name of the test and the number of its history, if somebody records."""
    if _FILE not in os.environ:
        return
    test = os.environ.get(_TEST, "").partition(" ")[0]
    name = f"{test} {id(history)}"
    _, looks = _looks.setdefault(name, (history, []))
    look = Look(
        nodes=list(nodes),
        after=after,
        children=children,
        spec=deepcopy(history.spec),
        catalogue=history.catalogue,
        preferred=history.preferred,
        bound=history.bound,
        by_value=dict(history.by_value),
        is_first=_memories.get(name) is not history.memory,
        is_single=history.memory.is_single_look,
    )
    _memories[name] = history.memory
    looks.append(look)


def pytest_sessionfinish() -> None:
    """Write the looks by the test, and the number of its history."""
    numbered: dict[str, list[Look]] = {}
    for number, (name, recorded) in enumerate(_looks.items()):
        test, _, _ = name.rpartition(" ")
        _, looks = recorded
        numbered[f"{test} {number}"] = looks
    file = Path(os.environ[_FILE])
    file.write_bytes(pickle.dumps(numbered))


@functools.cache
def recorded_looks() -> dict[str, list[Look]]:
    """Run the tests of assessments, and return the looks of each history."""
    tests = []
    for pattern in _NAMES:
        for path in sorted((ROOT / _TESTS).glob(pattern)):
            tests.append(str(path))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "looks"
        run_recording("tests.support.recorded_looks", {_FILE: str(file)}, tests)
        looks: dict[str, list[Look]] = pickle.loads(file.read_bytes())  # noqa: S301 - this program wrote it
    return looks


def repeat_changes(history: History, look: Look) -> None:
    """Change a history as it was changed before a look."""
    if look.is_first:
        history.restart(is_single_look=look.is_single)
    history.spec = look.spec
    history.catalogue = look.catalogue
    history.preferred = look.preferred
    history.bound = look.bound
    history.by_value = dict(look.by_value)
