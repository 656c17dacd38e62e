"""The simulated machines of a world, how they are broken, and what a Node may say then.

What a Node may say comes from `toposcope discover`, run for the same machine with the same faults: one look, nothing
remembered, no API server.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chaos.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PREFIX: Final = "gpu.topology/"
STATE: Final = f"{PREFIX}state"


@dataclass
class Machine:
    """One machine: `states` are the fault files that it may have suffered from in this round, empty text for none."""

    node: str
    profile: str
    gpus: int
    faults_file: Path
    states: set[str] = field(default_factory=lambda: {""})
    silent: bool = False
    """Whether NVML was kept from answering in this round: `state` may be `unknown`, and all else stays."""
    edited: bool = False
    """Whether somebody edited our labels in this round: that they are gone is no evidence against us."""

    def suffer(self, faults: str, *, answers: bool = True) -> None:
        """Break it as the text says; empty text: heal it. `answers`: whether NVML still says what there is."""
        if answers:
            self.states.add(faults)
        fresh = self.faults_file.with_suffix(".new")
        fresh.write_text(faults or "{}", encoding="utf-8")
        fresh.rename(self.faults_file)

    def forget(self) -> None:
        """Begin a round: the machine is whole."""
        self.states = {""}
        self.silent = self.edited = False

    @property
    def healthy(self) -> dict[str, str]:
        """The labels of the whole machine."""
        return _discovered(self.node, self.profile, "", self.faults_file.parent)

    def _possible(self) -> list[dict[str, str]]:
        return [_discovered(self.node, self.profile, state, self.faults_file.parent) for state in self.states]

    def may_lose(self, key: str) -> bool:
        """Whether there is evidence for a label to disappear."""
        return self.edited or any(key not in labels for labels in self._possible())

    def may_say(self, key: str, value: str) -> bool:
        """Whether there is evidence for a label's value."""
        if self.edited or (key == STATE and value == "unknown" and self.silent):
            return True
        return any(labels.get(key) == value for labels in self._possible()) or (
            # What is degraded is measured against what the node has shown before, which one look cannot know.
            key == STATE and value == "degraded" and len(self.states) > 1
        )


@functools.cache
def _discovered(node: str, profile: str, faults: str, folder: Path) -> dict[str, str]:
    file = folder / f"discover-{abs(hash((node, faults)))}.yaml"
    file.write_text(faults or "{}", encoding="utf-8")
    command = [sys.executable, "-m", "cli.main", "discover", "--profile", profile, "--node-name", node]
    done = subprocess.run(
        [*command, "--faults", str(file), "-o", "labels"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if not done.stdout:
        raise RuntimeError(f"toposcope discover says nothing about {profile} with {faults!r}: {done.stderr}")
    return dict(line.split("=", 1) for line in done.stdout.split() if "=" in line)
