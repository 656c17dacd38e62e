"""A snapshot as it would be after a change. Nothing is done to the cluster."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count as numbers
from itertools import islice
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
    nodes = []
    for node in snapshot.nodes:
        if node.name in closed:
            node = msgspec.structs.replace(node, is_schedulable=False)  # noqa: PLW2901 - the same node
        nodes.append(node)

    kept = []
    for pod in snapshot.pods or ():
        if pod.node not in closed:
            kept.append(pod)
    return replace(snapshot, nodes=tuple(nodes), pods=tuple(kept))


def finished(snapshot: Snapshot, gangs: Iterable[Gang]) -> Snapshot:
    """The pods of these gangs gone."""
    ended: list[PodView] = []
    for gang in gangs:
        ended += gang.pods
    return without(snapshot, ended)


def without(snapshot: Snapshot, pods: Iterable[PodView]) -> Snapshot:
    """Only these pods gone."""
    gone = {id(pod) for pod in pods}
    kept = []
    for pod in snapshot.pods or ():
        if id(pod) not in gone:
            kept.append(pod)
    return replace(snapshot, pods=tuple(kept))


def added(snapshot: Snapshot, like: NodeView, count: int, domains: Mapping[str, str]) -> Snapshot:
    """`count` more nodes like this one, without pods, Ready and not cordoned.

    `domains`: what their labels say instead. Where the label of a node is its own name, so is
    theirs. Taints for the state of a node stay behind.
    """
    taints = []
    for taint in like.taints:
        if not taint.key.startswith(_STATES):
            taints.append(taint)

    nodes = list(snapshot.nodes)
    for name in islice(_new_names(like.name, snapshot.by_name), count):
        labels = {**_labels_of(name, like), **domains}
        keys = sorted(labels)
        node = msgspec.structs.replace(
            like,
            name=name,
            uid=name,
            places={key: place for place, key in enumerate(keys)},
            values=tuple(labels[key] for key in keys),
            is_ready=True,
            is_schedulable=True,
            taints=tuple(taints),
        )
        nodes.append(node)
    nodes.sort(key=lambda node: node.name)
    return replace(snapshot, nodes=tuple(nodes), has_changed_nodes=True)


def _new_names(like: str, existing: Container[str]) -> Iterator[str]:
    """Names that no node has yet."""
    for number in numbers(1):
        name = f"{like}-new-{number}"
        if name not in existing:
            yield name


def _labels_of(name: str, like: NodeView) -> dict[str, str]:
    """The labels of a node of this name that is like another one."""
    labels = dict(like.labels)
    for key, value in labels.items():
        if value == like.name or key == HOSTNAME:
            labels[key] = name
    if like.label(NVLINK_DOMAIN) == like.label(HOSTNAME):
        labels[NVLINK_DOMAIN] = name
    return labels


def occupied(snapshot: Snapshot, pods: Iterable[PodView]) -> Snapshot:
    """The snapshot with more pods, each of which has a node."""
    running = snapshot.pods or ()
    return replace(snapshot, pods=(*running, *pods))
