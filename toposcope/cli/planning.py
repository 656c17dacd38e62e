"""What the commands that help to decide share: the cluster as they read it."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from toposcope.api.levels import Level
from toposcope.cli.command import api_client, load_snapshot, no_node, no_nodes, whole_number
from toposcope.cli.errors import CommandError
from toposcope.cli.output import counted
from toposcope.cli.progress import ProgressLine
from toposcope.cli.terminal import complain
from toposcope.integrations.framework.document import kind_of
from toposcope.kube.errors import ApiError
from toposcope.planning import plan
from toposcope.planning.budgets import BUDGET, Budgets, budget_of
from toposcope.planning.gangs import Gang, named
from toposcope.planning.repelling import Repelling, repelling_taints
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.filters import value_at
from toposcope.snapshot.live import forbidden
from toposcope.snapshot.model import Collector, NodeView, PodView
from toposcope.snapshot.reach import PodShape
from toposcope.snapshot.scope import select_scope
from toposcope.text import first_few

if TYPE_CHECKING:
    from toposcope.kube.client import ApiClient

number: Final = whole_number()
"""Reads a number of nodes or GPUs in a flag."""


class NamedPlan(plan.Plan):
    """A cluster whose parts can be named as in the flags of commands."""

    def uncounted(self, like: PodShape | None = None) -> Iterator[str]:
        """A line for everything that no figure counts, of pods like this or the typical one."""
        for repelling in self.repelling_for(like):
            yield f"! {repelling.sentence}; {repelling.flag} counts them"
        if self.parts:
            pods = counted(self.parts, "pod")
            yield f"! not counted: {pods} with parts of GPUs (MIG devices, shared GPUs)"
        if self.shared:
            nodes = f"{counted(len(self.shared), 'node')}: {first_few(self.shared)}"
            yield f"! not counted: shared GPUs, which no gang can use, on {nodes}"

    def repelling_for(self, like: PodShape | None) -> tuple[Repelling, ...]:
        """The taints that keep pods like this, or the typical one, from nodes with GPUs."""
        if like is None:
            return self.repelling
        return repelling_taints(self.capacity, like)

    def level(self, name: str) -> Level:
        """The level of this name. Raises LevelNotFoundError."""
        return self.scope.levels[self.scope.level(name)]

    def node(self, name: str) -> NodeView:
        """The node of this name. Raises CommandError."""
        node = self.snapshot.by_name.get(name)
        if node is None:
            raise no_node(self.snapshot, name)
        return node

    def nodes(self, wanted: str) -> tuple[str, ...]:
        """The nodes of `NODE`, or `LEVEL=VALUE`, where a value may be a path (`block-1/rack-7`).

        Raises CommandError where there is none.
        """
        if "=" not in wanted:
            return (self.node(wanted).name,)

        name, value = pair(wanted)
        end = self.scope.level(name) + 1
        begin = max(0, end - 1 - value.count("/"))
        levels = self.scope.levels[begin:end]
        names = []
        for node in self.scope.nodes:
            values = [value_at(self.scope, node, level.key) or "" for level in levels]
            if "/".join(values) == value:
                names.append(node.name)

        if not names:
            raise CommandError(
                f"no node is in {levels[-1].domain} {value!r}; toposcope tree shows the domains"
            )
        return tuple(names)

    def only(self, name: str) -> tuple[Gang, ...]:
        """The gangs called `NAME` or `NAMESPACE/NAME`. Raises CommandError where there is none."""
        return named_gangs(self.gangs, name)


def working(what: str) -> ProgressLine:
    """Progress of a computation, shown once it has taken a second."""
    progress = ProgressLine(sys.stderr, "counting")
    progress(what, 0)
    return progress


def pair(text: str) -> tuple[str, str]:
    """`rack=rack-7` in a flag."""
    level, equals, value = text.partition("=")
    if not (level and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not LEVEL=VALUE, such as rack=rack-7")
    return level, value


class _Collectors(tuple[Collector, ...]):
    """Several collectors that read the same files."""

    __slots__ = ()

    def wants(self, group: str, kind: str) -> bool:
        for collector in self:
            if collector.wants(group, kind):
                return True
        return False

    def put(self, document: Mapping[str, Any]) -> None:
        for collector in self:
            if collector.wants(*kind_of(document)):
                collector.put(document)


def read(
    arguments: argparse.Namespace,
    *,
    has_published: bool = False,
    others: Collector | None = None,
    required: RequiredLevels | None = None,
) -> NamedPlan:
    """The cluster that the flags name; `required` gets the levels that its workloads require.

    Raises CommandError where it has no nodes, or its pods are not known.
    """
    collectors: list[Collector] = []
    if others is not None:
        collectors.append(others)
    if required is not None:
        collectors.append(required)
    everything = _Collectors(collectors) if collectors else None
    snapshot = load_snapshot(arguments, has_published=has_published, others=everything)
    scope = select_scope(snapshot, arguments.topology)
    if not scope.nodes:
        raise no_nodes(snapshot, scope)

    if snapshot.pods is None:
        raise CommandError("the pods could not be read, so what runs and what is free are unknown")

    if required is not None and not arguments.files:
        read_required(arguments, required)
    return NamedPlan(
        snapshot=snapshot,
        scope=scope,
        required=required or RequiredLevels(),
        tolerations=tuple(arguments.tolerate),
    )


def read_required(arguments: argparse.Namespace, required: RequiredLevels) -> None:
    """Read what the cluster's workloads require, and warn where they cannot be read."""
    with api_client(arguments) as client:
        required.read(client)
    for warning in required.warnings:
        complain(f"warning: {warning}")


def read_budgets(
    arguments: argparse.Namespace, pods: Iterable[PodView], collected: Budgets
) -> Budgets:
    """The PodDisruptionBudgets: `collected` from files, or of the cluster.

    Warns where they cannot be read.
    """
    if arguments.files:
        if not collected.budgets:
            complain(
                "warning: there are no PodDisruptionBudgets in the files, so none is respected"
            )
        return collected

    with api_client(arguments) as client:
        try:
            _read_budgets(client, {pod.namespace for pod in pods}, collected)
        except ApiError as error:
            if error.is_forbidden:
                complain(f"warning: {forbidden(BUDGET.name, 'none is respected', error)}")
            elif not error.is_not_found:  # the embedded API server has none
                raise
    return collected


def _read_budgets(client: "ApiClient", namespaces: AbstractSet[str], collected: Budgets) -> None:
    """Read the budgets, and the labels of pods in those of the namespaces that have one."""
    from toposcope.kube.listing import everything  # noqa: PLC0415 - not for files

    for budget in everything(client, BUDGET.path()):
        collected.budgets.append(budget_of(budget))

    with_budgets = {budget.namespace for budget in collected.budgets}
    for namespace in sorted(with_budgets & namespaces):
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        for pod in everything(client, path, is_metadata_only=True):
            metadata = pod["metadata"]
            name = f"{namespace}/{metadata['name']}"
            collected.labelled(name, metadata.get("labels") or {})


def named_gangs(gangs: tuple[Gang, ...], name: str) -> tuple[Gang, ...]:
    """The gangs of this name. Raises CommandError where there is none."""
    gangs_of_name = named(gangs, name)
    if not gangs_of_name:
        raise CommandError(
            f"no gang with GPUs is called {name!r}; toposcope score -o name lists those that run"
        )
    return gangs_of_name
