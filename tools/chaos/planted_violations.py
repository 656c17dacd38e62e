"""Violations planted on purpose: the observer and the audit must find every one."""

import time
from pathlib import Path
from typing import Any, Final

import yaml

from tools.apiserver.client import MERGE, pod_token
from tools.chaos.cluster import GROVE, NODES, TOPOLOGIES
from tools.chaos.faults import Action
from tools.chaos.violations import Violation
from tools.chaos.world import NotSettledError, World


def _patch(world: World, path: str, body: dict[str, Any], token: str | None = None) -> None:
    code, answer = world.api.request(
        "PATCH",
        path,
        body,
        content_type=MERGE,
        token=token,
    )
    if code != 200:
        raise NotSettledError(f"not allowed to write {path}: {answer}")


def _edit(path: str, body: dict[str, Any]) -> Action:
    """Have somebody write what is not so, on a Node where no path is given."""

    def edit(world: World, _target: str) -> None:
        node = world.machines[0].node
        _patch(world, path or f"{NODES}/{node}", body)

    return edit


def _write_out_of_turn(world: World, _target: str) -> None:
    leader = world.leader()
    deposed = next(actor for actor in world.controllers if actor is not leader)
    _patch(
        world,
        f"{TOPOLOGIES}/cluster/status",
        {"status": {"nodes": 7}},
        pod_token(world.api, deposed.pod),
    )


def _publish_less(world: World, _target: str) -> None:
    level = {"domain": "host", "key": "kubernetes.io/hostname"}
    less = {"spec": {"levels": [level]}}
    leader = world.leader()
    token = pod_token(world.api, leader.pod)
    _patch(world, f"{GROVE}/cluster", less, token)


def _end_a_program(world: World, _target: str) -> None:
    process = world.agents[0].program
    pid = process.pid
    process.kill()
    # As if it had ended by itself: it is meant to run, and does not.
    process.expect()
    if process.pid != pid:
        raise NotSettledError("another program was ended")


_EDITS: Final[dict[str, Any]] = yaml.load(
    Path(__file__).with_name("planted.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
PLANTED: Final[dict[str, tuple[str, str, Action]]] = {
    what: (invariant, words, _edit(path, body))
    for what, (invariant, words, path, body) in _EDITS.items()
} | {
    "a deposed leader writes": ("writer", "clustertopologies/status/cluster", _write_out_of_turn),
    "a level is taken from Grove": ("levels", "clustertopologybindings/cluster", _publish_less),
    "a program ends by itself": ("programs", "ended with code", _end_a_program),
}
"""What is done, to the invariant it breaks, words that the violation must have, and the action."""

_PATIENCE_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.2


def find_planted(world: World) -> list[str]:
    """Plant every violation in a world that is at rest; those that were missed."""
    missed = []
    for what, (invariant, words, action) in PLANTED.items():
        world.begin_round()
        world.findings.take()
        action(world, "")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        violations: list[Violation] = []
        while not any(
            violation.invariant == invariant and words in violation.what for violation in violations
        ):
            if time.monotonic() > deadline:
                missed.append(what)
                break
            world.restart_ended()
            world.judge()
            violations += world.findings.take()
            time.sleep(_LOOK_SECONDS)
        print(f"{'MISSED' if what in missed else 'found'}: {what}", flush=True)
    return missed
