"""The simulated machines of a world, how they are broken, and what a Node may say then.

What a Node may say comes from `toposcope discover`, run for the same machine with the same faults:
one look, nothing remembered, no API server.
"""

import functools
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PREFIX: Final = "gpu.topology/"
STATE: Final = f"{PREFIX}state"


@dataclass
class Evidence:
    """What was done to a machine in one round."""

    states: frozenset[str] = frozenset()
    """The fault files that it suffered from."""
    is_silent: bool = False
    """Whether NVML was kept from answering: `state` may be `unknown`, and all else stays."""
    is_edited: bool = False
    """Whether somebody edited our labels: that they are gone is no evidence against us."""


@dataclass
class Machine:
    """One machine, and what was done to it in this round and in the one before.

    The last write of the round before may still be under way.
    """

    node: str
    profile: str
    gpus: int
    faults_file: Path
    now: Evidence = field(default_factory=Evidence)
    before: Evidence = field(default_factory=Evidence)

    def set_faults(self, faults: str, *, answers: bool = True) -> None:
        """Break it as the text says; empty text: heal it.

        `answers`: whether NVML still says what there is.
        """
        if answers:
            self.now.states |= {faults}
        fresh = self.faults_file.with_suffix(".new")
        fresh.write_text(faults or "{}", encoding="utf-8")
        fresh.rename(self.faults_file)

    def forget(self) -> None:
        """Begin a round."""
        self.before, self.now = self.now, Evidence()

    @property
    def healthy(self) -> dict[str, str]:
        """The labels of the whole machine."""
        return _discovered(self.node, self.profile, "", self.faults_file.parent)

    @property
    def _states(self) -> frozenset[str]:
        return self.now.states | self.before.states | {""}

    @property
    def _is_edited(self) -> bool:
        return self.now.is_edited or self.before.is_edited

    def _possible(self) -> list[dict[str, str]]:
        return [
            _discovered(self.node, self.profile, state, self.faults_file.parent)
            for state in self._states
        ]

    def may_lose(self, key: str) -> bool:
        """Whether there is evidence for a label to disappear."""
        return self._is_edited or any(key not in labels for labels in self._possible())

    def may_say(self, key: str, value: str) -> bool:
        """Whether there is evidence for a label's value."""
        if self._is_edited or (
            key == STATE and value == "unknown" and (self.now.is_silent or self.before.is_silent)
        ):
            return True
        return any(labels.get(key) == value for labels in self._possible()) or (
            # What is degraded is measured against what the node has shown before, which one look
            # cannot know.
            key == STATE and value == "degraded" and len(self._states) > 1
        )


@functools.cache
def _discovered(node: str, profile: str, faults: str, folder: Path) -> dict[str, str]:
    file = folder / f"discover-{abs(hash((node, faults)))}.yaml"
    file.write_text(faults or "{}", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "toposcope.cli.main",
        "discover",
        "--profile",
        profile,
        "--node-name",
        node,
    ]
    done = subprocess.run(
        [*command, "--faults", str(file), "-o", "labels"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if not done.stdout:
        raise RuntimeError(
            f"toposcope discover says nothing about {profile} with {faults!r}: {done.stderr}"
        )
    return dict(line.split("=", 1) for line in done.stdout.split() if "=" in line)
