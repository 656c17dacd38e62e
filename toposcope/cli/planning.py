"""What the commands share that help to decide: the cluster as they read it."""

import argparse
from dataclasses import dataclass
from functools import cached_property

from toposcope.cli.command import CommandError, load_snapshot, no_nodes
from toposcope.planning.capacity import Capacity
from toposcope.planning.gangs import Gang, gangs_of, named
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope, select_scope


@dataclass(frozen=True)
class Plan:
    """A cluster with its gangs."""

    snapshot: Snapshot
    scope: Scope

    @cached_property
    def gangs(self) -> tuple[Gang, ...]:
        """All gangs with GPUs."""
        return gangs_of(self.snapshot)

    @cached_property
    def capacity(self) -> Capacity:
        """What its domains could take."""
        return Capacity(self.snapshot, self.scope, self.gangs)

    def only(self, name: str) -> tuple[Gang, ...]:
        """The gangs called `NAME` or `NAMESPACE/NAME`. Raises CommandError where there is none."""
        return named_gangs(self.gangs, name)


def read(arguments: argparse.Namespace) -> Plan:
    """The cluster that the flags name. Raises CommandError where it has no nodes, or its pods are not known."""
    snapshot = load_snapshot(arguments)
    scope = select_scope(snapshot, arguments.topology)
    if not scope.nodes:
        raise no_nodes(snapshot, scope)
    if snapshot.pods is None:
        raise CommandError("what runs is not known, so nor is what is free: the pods could not be read")
    return Plan(snapshot, scope)


def named_gangs(gangs: tuple[Gang, ...], name: str) -> tuple[Gang, ...]:
    """Those of this name. Raises CommandError where there is none."""
    found = named(gangs, name)
    if not found:
        raise CommandError(f"no gang with GPUs is called {name!r}; toposcope score -o name lists those that run")
    return found
