"""Whether the topology resource that a scheduler reads has the levels of the ClusterTopology."""

from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.object_store import AROUND
from toposcope.explain.topology_steps import blocked_by_topology, no_topology
from toposcope.integrations.framework import features
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.registry import waiting
from toposcope.snapshot.model import PublishedTopology
from toposcope.snapshot.scope import Scope
from toposcope.text import Command, shell

_NAMES: Final = {kind.key: kind.name for kind in AROUND}
"""What kubectl calls each kind and no other."""


def check_drift(context: Context) -> features.CheckStep:
    """The scheduler reads the levels that the ClusterTopology has, and reports no drift."""
    well = []
    open_questions = []
    for workload in context.workloads:
        kinds = context.topology_kinds(workload)
        if workload.topology is None:
            continue
        if not kinds:
            well.append(f"{workload.system} reads no resource that lists levels")
            continue

        resource = context.resource(workload)
        if resource is None:
            missing = f"there is no {kinds[0].kind} {workload.topology}"
            open_questions.append(context.store.why_unknown(*kinds) or missing)
            continue

        scope = context.scope(workload)
        drifted = _drift(context, resource, scope)
        if drifted:
            return drifted

        if scope:
            well.append(f"{resource.handle} has the levels of the ClusterTopology")
        else:
            open_questions.append(_nothing_to_compare(workload, resource))

    open_questions.append(blocked_by_topology(context))
    for question in filter(None, open_questions):
        return features.unknown(question)
    if not well:
        return no_topology(context)
    return features.passed("; ".join(dict.fromkeys(well)))


def _nothing_to_compare(workload: Workload, resource: PublishedTopology) -> str:
    return f"there is no ClusterTopology {workload.topology} to compare {resource.handle} with"


def _drift(
    context: Context, resource: PublishedTopology, scope: Scope | None
) -> features.CheckStep | None:
    """The step where a resource, or one made from it, differs from the ClusterTopology."""
    resources = list(_resources(context, resource))
    if scope:
        for published in resources:
            if not _has_levels_of(published, scope):
                return _drifted(published, scope)

    describe = _command("kubectl describe {} {}", resource)
    for system in waiting():
        reported = system.check_drift(resource, describe)
        if reported:
            return reported

    return _differing(resources)


def _resources(context: Context, resource: PublishedTopology) -> Iterator[PublishedTopology]:
    """The resource that the system reads, and the one that its pods are scheduled by instead."""
    yield resource
    for system in waiting():
        name_and_kind = system.made_from(resource)
        if name_and_kind is None:
            continue
        name, kind = name_and_kind
        created = context.published(name, kind)
        if created:
            yield created


def _keys(resource: PublishedTopology) -> list[str]:
    return [level.key for level in resource.levels]


def _has_levels_of(resource: PublishedTopology, scope: Scope) -> bool:
    """Whether a resource has the levels of the ClusterTopology.

    A level that is gone from all nodes may be in it or not.
    """
    table = scope.table()
    has = _keys(resource)
    expected = []
    for level in scope.levels:
        if level.key in has or table.column(level.key).distinct:
            expected.append(level.key)
    return has == expected


def _drifted(resource: PublishedTopology, scope: Scope) -> features.CheckStep:
    expected = [level.key for level in scope.levels]
    has = _keys(resource)
    return features.failed(
        f"{resource.handle} differs from ClusterTopology {scope.name}",
        f"it has {_order(has)}",
        f"the ClusterTopology has {_order(expected)}",
        _reported(resource, scope),
        commands=(
            shell("kubectl describe gtopo {}", scope.name),
            _command("kubectl get {} {} -o yaml", resource),
        ),
    )


def _reported(resource: PublishedTopology, scope: Scope) -> str:
    """What the ClusterTopology's status says about a resource; empty: nothing."""
    if scope.topology is None:
        return ""
    resource_kind = resource.api_version, resource.kind
    published = Field(scope.topology.status) / "published"
    for entry in published.items():
        version = (entry / "apiVersion").text()
        kind = (entry / "kind").text()
        message = (entry / "message").text()
        if message and (version, kind) == resource_kind:
            return f"ClusterTopology {scope.name} reports on it: {message}"
    return ""


def _differing(resources: Sequence[PublishedTopology]) -> features.CheckStep | None:
    """The step where a binding and the topology created from it differ without any report of it."""
    if len(resources) == 1 or _keys(resources[0]) == _keys(resources[1]):
        return None

    binding, created = resources
    return features.failed(
        f"{created.handle}, by which its pods are scheduled, differs from {binding.handle}",
        f"it has {_order(_keys(created))}",
        f"the binding has {_order(_keys(binding))}",
        commands=(
            _command("kubectl get {} {} -o yaml", created),
            _command("kubectl describe {} {}", binding),
        ),
    )


def _order(keys: Sequence[str]) -> str:
    return " > ".join(keys) or "no levels"


def _command(template: str, resource: PublishedTopology) -> Command:
    """A command about a resource by its full name: several API groups have topologies."""
    kind = _NAMES.get(resource.key)
    if kind is None:
        group, _ = resource.key
        kind = f"topologies.{group}"
    return shell(template, kind, resource.name)
