"""Faults that somebody with rights does to objects."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from tools.apiserver.client import APPLY, MERGE
from tools.chaos.cluster import COLLECTIONS, GROVE, KUEUE, NODES, crds, machine_node, topologies
from tools.chaos.faults.model import Fault, Scope
from tools.chaos.machines import PREFIX
from toposcope.api.label_keys import HOSTNAME
from toposcope.simulator import manifests

if TYPE_CHECKING:
    from tools.chaos.world import World

_MOMENT: Final = 5.0
"""Seconds."""


def _done(answer: tuple[int, Any], *codes: int) -> None:
    """Raise AssertionError when the server did not do it."""
    code, body = answer
    assert code in (200, 201, *codes), body  # noqa: S101 - see tools.chaos.faults.model.Fault


def _delete_node(world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine:
        _done(world.api.request("DELETE", f"{NODES}/{machine.node}"), 404)


def _create_node(world: World, target: str) -> None:
    """Make it again, and the agent's token: the admission policy ties one to the very Node that it was issued on."""
    actor = world.actors[target]
    machine = actor.machine
    if machine and world.api.request("GET", f"{NODES}/{machine.node}")[0] == 404:
        world.add_node(machine_node(machine))
    world.rotate(actor)
    world.write_token(actor)


def _delete_kind(kind: str, world: World, _target: str) -> None:
    world.expect_deletions()
    world.forget_foreign(COLLECTIONS[kind])
    if kind == "grove":
        # Without Grove a Topology of KAI is made for every ClusterTopology, also where Grove's name is somebody else's.
        world.published_writes.late_grove = True
        world.published_writes.allowed |= {("kai.scheduler", topology["metadata"]["name"]) for topology in topologies()}
    world.delete_crd(crds()[kind]["metadata"]["name"])


def _add_kind(kind: str, world: World, _target: str) -> None:
    world.add_crd(crds()[kind])
    # Not for long: what keeps it from being served may be a fault that is to be healed after this one.
    world.plant(_MOMENT)


def _delete_ours(world: World, _target: str) -> None:
    world.expect_deletions()
    world.delete_crd(manifests.cluster_topology_crd()["metadata"]["name"])


def _add_ours(world: World, _target: str) -> None:
    world.add_crd(manifests.cluster_topology_crd())
    world.add_topologies()


def _edit_grove(world: World, _target: str) -> None:
    world.expect_deletions()
    spec = {"levels": [{"domain": "host", "key": HOSTNAME}]}
    _done(world.api.request("PATCH", f"{GROVE}/cluster", {"spec": spec}, content_type=MERGE))


def _edit_kueue(world: World, _target: str) -> None:
    world.expect_deletions()
    spec = {"levels": [{"nodeLabel": "example.com/by-hand"}]}
    _done(world.api.request("PATCH", f"{KUEUE}/cluster", {"spec": spec}, content_type=MERGE))


def _delete_published(world: World, _target: str) -> None:
    world.expect_deletions()
    for path in (GROVE, KUEUE):
        _done(world.api.request("DELETE", f"{path}/cluster"), 404)


def _edit_labels(world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine is None:
        return
    machine.now.edited = True
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.node, "labels": {f"{PREFIX}gpus": "99", f"{PREFIX}interconnect": "by-hand"}},
    }
    query = "fieldManager=by-hand&force=true"
    _done(world.api.request("PATCH", f"{NODES}/{machine.node}?{query}", body, content_type=APPLY))
    gone = {"metadata": {"labels": {f"{PREFIX}nvlink-domain": None, f"{PREFIX}state": None}}}
    _done(world.api.request("PATCH", f"{NODES}/{machine.node}", gone, content_type=MERGE))


def _kinds(kind: str) -> Fault:
    return Fault(
        f"crd-deleted-{kind}",
        f"{kind.capitalize()}'s CRD deleted with its objects, added again",
        Scope.CLUSTER,
        (2.0, 8.0),
        functools.partial(_delete_kind, kind),
        functools.partial(_add_kind, kind),
    )


FAULTS = (
    Fault(
        "node-recreated",
        "a Node deleted and made again under its name, without our labels",
        Scope.AGENT,
        (0.5, 5.0),
        _delete_node,
        _create_node,
    ),
    *map(_kinds, ("grove", "kai", "kueue")),
    Fault(
        "crd-deleted-ours",
        "our own CRD deleted with every ClusterTopology, applied again",
        Scope.CLUSTER,
        (2.0, 8.0),
        _delete_ours,
        _add_ours,
    ),
    Fault("grove-edited", "Grove's resource edited by hand", Scope.CLUSTER, (0.5, 1.0), _edit_grove),
    Fault("kueue-edited", "Kueue's resource edited by hand", Scope.CLUSTER, (0.5, 1.0), _edit_kueue),
    Fault("published-deleted", "what was published deleted by hand", Scope.CLUSTER, (0.5, 1.0), _delete_published),
    Fault("labels-edited", "our labels edited and deleted by hand", Scope.AGENT, (0.5, 1.0), _edit_labels),
)
