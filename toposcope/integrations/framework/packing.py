"""How often a pod fits on a node, and the paths of the domains in which nodes are counted.

Schedulers differ in what they count, not in how. Most count pods of one kind by what each requests.
One counts every pod of a group as its largest, and treats a node as full if it is overcommitted in
any resource, even one that the pod does not request (`times_if_not_overcommitted`).
"""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from sys import maxsize
from typing import Final

PODS: Final = "pods"
"""Each pod uses one of these, whatever else it requests."""

Path = tuple[str, ...]
"""A domain: its values from the broadest level down. The empty one is the whole cluster."""


Requests = Iterable[tuple[str, int]]
"""Resource and amount, as of `Pods.requests`."""


def resources_of(kinds: Iterable[Requests]) -> tuple[str, ...]:
    """All resources that pods of these kinds use, the pod count first."""
    resources = {PODS: None}
    for requests in kinds:
        for resource, amount in requests:
            if amount:
                resources[resource] = None
    return tuple(resources)


def columns(requests: Requests, resources: Iterable[str]) -> tuple[int, ...]:
    """How much one pod uses of each of these resources."""
    amounts = dict(requests)
    amounts[PODS] = 1
    return tuple([amounts.get(resource, 0) for resource in resources])


def times(free: Sequence[int], amounts: Sequence[int], most: int = maxsize) -> int:
    """How often a pod fits, by columns, but no more than `most`.

    Below 0 if more is used than exists.
    """
    for have, amount in zip(free, amounts, strict=True):
        if amount:
            most = min(most, have // amount)
    return most


def times_if_not_overcommitted(free: Sequence[int], amounts: Sequence[int]) -> int:
    """How often a pod fits if an overcommitted node (any column below 0) counts as full."""
    if min(free) < 0:
        return 0
    return times(free, amounts)


def times_by_name(offered: Mapping[str, int], requests: Requests) -> int:
    """How often a pod fits into what is offered by resource; never below 0."""
    most = offered.get(PODS, 0)
    for resource, amount in requests:
        if amount:
            most = min(most, offered.get(resource, 0) // amount)
    return max(0, most)


def add_pods(held: MutableMapping[str, int], requests: Requests, count: int) -> None:
    """Add what `count` pods use of a node; a negative count subtracts it."""
    held[PODS] = held.get(PODS, 0) + count
    for resource, amount in requests:
        before = held.get(resource, 0)
        held[resource] = before + amount * count
