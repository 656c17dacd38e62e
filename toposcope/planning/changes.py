"""A snapshot as it would be after a change. Nothing is done to the cluster."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.planning.gangs import Gang
from toposcope.snapshot.model import NodeView, PodView, Snapshot

_STATES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of the taints that Kubernetes sets and takes away as a node's conditions change."""


def drained(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """These nodes cordoned, and their pods gone from them."""
    closed = frozenset(names)
    nodes = (
        msgspec.structs.replace(n, schedulable=False) if n.name in closed else n
        for n in snapshot.nodes
    )
    kept = tuple(pod for pod in snapshot.pods or () if pod.node not in closed)
    return replace(snapshot, nodes=tuple(nodes), pods=kept)


def finished(snapshot: Snapshot, gangs: Iterable[Gang]) -> Snapshot:
    """The pods of these gangs gone."""
    gone = {id(pod) for gang in gangs for pod in gang.pods}
    return replace(snapshot, pods=tuple(pod for pod in snapshot.pods or () if id(pod) not in gone))


def added(snapshot: Snapshot, like: NodeView, count: int, domains: Mapping[str, str]) -> Snapshot:
    """`count` more nodes like this one, without pods, Ready and not cordoned; `domains`: what their labels say instead.

    Where the label of a node is its own name, so is theirs. Taints for the state of a node stay behind.
    """
    taints = tuple(taint for taint in like.taints if not taint.key.startswith(_STATES))
    taken, number = set(snapshot.by_name), 0
    new: list[NodeView] = []
    while len(new) < count:
        number += 1
        name = f"{like.name}-new-{number}"
        if name in taken:
            continue
        own = {
            key: name for key, value in like.labels.items() if value == like.name or key == HOSTNAME
        }
        if like.label(NVLINK_DOMAIN) == like.label(HOSTNAME):
            own[NVLINK_DOMAIN] = name
        labels = dict(sorted({**like.labels, **own, **domains}.items()))
        places = {key: place for place, key in enumerate(labels)}
        new.append(
            msgspec.structs.replace(
                like,
                name=name,
                uid=name,
                places=places,
                values=tuple(labels.values()),
                ready=True,
                schedulable=True,
                taints=taints,
            )
        )
    return replace(
        snapshot, nodes=tuple(sorted((*snapshot.nodes, *new), key=lambda node: node.name))
    )


def occupied(snapshot: Snapshot, pods: Iterable[PodView]) -> Snapshot:
    """With more pods, which have nodes."""
    return replace(snapshot, pods=(*(snapshot.pods or ()), *pods))
