"""Violations planted on purpose: the observer and the audit must find every one."""

import time
from typing import Any, Final

from tools.apiserver.client import MERGE, pod_token
from tools.chaos.cluster import GROVE, KAI, NODES, TOPOLOGIES
from tools.chaos.faults import Action
from tools.chaos.machines import PREFIX
from tools.chaos.violations import Violation
from tools.chaos.world import NotSettledError, World

_STATUS: Final = {
    "conditions": [
        {
            "type": "TopologyLevelsAvailable",
            "status": "False",
            "reason": "TopologyLevelsUnavailable",
            "message": "Topology level 'rack' is no longer available in the cluster topology",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}


def _patch(world: World, path: str, body: dict[str, Any], token: str | None = None) -> None:
    code, answer = world.api.request("PATCH", path, body, content_type=MERGE, token=token)
    if code != 200:
        raise NotSettledError(f"not allowed to write {path}: {answer}")


def _edit(path: str, body: dict[str, Any]) -> Action:
    """Have somebody write what is not so."""
    return lambda world, _target: _patch(world, path, body)


def _edit_node(body: dict[str, Any]) -> Action:
    return lambda world, _target: _patch(world, f"{NODES}/{world.machines[0].node}", body)


def _write_out_of_turn(world: World, _target: str) -> None:
    leader = world.leader()
    deposed = next(actor for actor in world.controllers if actor is not leader)
    _patch(world, f"{TOPOLOGIES}/cluster/status", {"status": {"nodes": 7}}, pod_token(world.api, deposed.pod))


def _publish_less(world: World, _target: str) -> None:
    less = {"spec": {"levels": [{"domain": "host", "key": "kubernetes.io/hostname"}]}}
    _patch(world, f"{GROVE}/cluster", less, pod_token(world.api, world.leader().pod))


def _end_a_program(world: World, _target: str) -> None:
    process = world.agents[0].program
    pid = process.pid
    process.kill()
    # As if it had ended by itself: it is meant to run, and does not.
    process.expect()
    if process.pid != pid:
        raise NotSettledError("another program was ended")


PLANTED: Final[dict[str, tuple[str, str, Action]]] = {
    "a label disappears": (
        "labels", "nvlink-domain", _edit_node({"metadata": {"labels": {f"{PREFIX}nvlink-domain": None}}})),
    "a label says what is not so": (
        "labels", "gpus became '64'", _edit_node({"metadata": {"labels": {f"{PREFIX}gpus": "64"}}})),
    "a foreign label is changed": (
        "foreign", "'example.com/pool': 'mine'", _edit_node({"metadata": {"labels": {"example.com/pool": "mine"}}})),
    "a foreign taint is taken": ("foreign", "spec were", _edit_node({"spec": {"taints": None}})),
    "a foreign object is edited": (
        "foreign", "kai.scheduler/v1alpha1/topologies/foreign became",
        _edit(f"{KAI}/foreign", {"spec": {"levels": [{"nodeLabel": "mine"}]}})),
    "a deposed leader writes": ("writer", "clustertopologies/status/cluster", _write_out_of_turn),
    "a level is taken from Grove": ("levels", "clustertopologybindings/cluster", _publish_less),
    "a level is called unavailable": (
        "levels", "'rack' is no longer available", _edit(f"{TOPOLOGIES}/cluster/status", {"status": _STATUS})),
    "a program ends by itself": ("programs", "ended with code", _end_a_program),
}  # fmt: skip
"""What is done, to the invariant that it breaks, words that the violation must have, and the action."""

_PATIENCE: Final = 20.0
_LOOK: Final = 0.2


def find_planted(world: World) -> list[str]:
    """Plant every violation in a world that is at rest; those that were missed."""
    missed = []
    for what, (invariant, words, action) in PLANTED.items():
        world.begin_round()
        world.findings.take()
        action(world, "")
        deadline = time.monotonic() + _PATIENCE
        seen: list[Violation] = []
        while not any(violation.invariant == invariant and words in violation.what for violation in seen):
            if time.monotonic() > deadline:
                missed.append(what)
                break
            world.restart_ended()
            world.judge()
            seen += world.findings.take()
            time.sleep(_LOOK)
        print(f"{'MISSED' if what in missed else 'found'}: {what}", flush=True)
    return missed
