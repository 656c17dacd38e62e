"""`toposcope explain` on a saved cluster, and what it answers."""

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.explain.waiting import WaitingCluster
from toposcope.cli.main import main


@dataclass(frozen=True)
class Step:
    """One of the steps, in the order in which they are checked."""

    name: str
    outcome: str
    message: str
    details: list[str]


def passed(name: str, message: str, *details: str) -> Step:
    """A step of this name that found nothing wrong."""
    return Step(name, "passed", message, list(details))


def failed(name: str, message: str, *details: str) -> Step:
    """A step of this name that found why."""
    return Step(name, "failed", message, list(details))


def unknown(name: str, message: str, *details: str) -> Step:
    """A step of this name that could not tell."""
    return Step(name, "unknown", message, list(details))


@dataclass(frozen=True)
class Explained:
    """The exit code of `toposcope explain`, and its answer for scripts."""

    code: int
    document: dict[str, Any]

    @property
    def is_well(self) -> bool:
        return bool(self.document["well"])

    @property
    def has_answer(self) -> bool:
        """Whether a step says why it waits: whether one failed."""
        return self.document["answer"] is not None

    @property
    def answer(self) -> Step:
        """The step that says why; an assertion fails where none does."""
        assert self.has_answer, "nothing failed"
        return _step(self.document["answer"])

    def step(self, name: str) -> Step:
        """The step of this name."""
        steps = {step["step"]: step for step in self.document["steps"]}
        return _step(steps[name])

    @property
    def placements(self) -> list[dict[str, Any]]:
        """Where the pods of each group run."""
        placements: list[dict[str, Any]] = self.document["placements"]
        return placements

    @property
    def messages(self) -> list[dict[str, str]]:
        """What schedulers say of it."""
        messages: list[dict[str, str]] = self.document["messages"]
        return messages


Explain = Callable[[WaitingCluster, str], Explained]


def explain_in(folder: Path, cluster: WaitingCluster, subject: str) -> Explained:
    """Ask about an object such as `job/train` of a cluster that is saved in the folder."""
    file = cluster.save(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = main(["explain", subject, "--from", str(file), "-o", "json"])
    return Explained(code, json.loads(printed.getvalue()))


def _step(document: dict[str, Any]) -> Step:
    return Step(
        name=document["step"], outcome=document["outcome"], message=document["message"], details=document["details"]
    )
