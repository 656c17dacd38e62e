"""Does the scheduler read what the ClusterTopology says? Else the two have drifted apart."""

from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.explain.context import Context, published_as
from toposcope.explain.kinds import BINDING, KAI_TOPOLOGY
from toposcope.explain.object_store import condition
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.integrations.framework.document import Field
from toposcope.snapshot.model import Published
from toposcope.snapshot.scope import Scope

NAME: Final = "drift"
_DRIFT: Final = "SchedulerTopologyDrift"


def look(context: Context) -> Step:
    """Levels of the published resources against the ClusterTopology's, and what Grove says of its own comparison."""
    told, open_questions = [], []
    for workload in context.workloads:
        if workload.topology is None or not context.reads(workload):
            continue
        resource = context.resource(workload)
        if resource is None:
            kinds = context.reads(workload)
            open_questions.append(context.store.hidden(*kinds) or f"there is no {kinds[0].kind} {workload.topology}")
            continue
        scope = context.scope(workload)
        chain = list(_resources(context, resource))
        for each in chain:
            if scope and not _says(each, scope):
                return _drifted(each, scope)
        step = _groves_own(resource) or _between(chain)
        if step:
            return step
        told.append(
            f"{resource.handle} has the levels of the ClusterTopology" if scope else f"{resource.handle} exists"
        )
        if scope is None:
            open_questions.append(f"there is no ClusterTopology {workload.topology} to compare {resource.handle} with")
    if open_questions:
        return unknown(NAME, open_questions[0])
    return passed(NAME, "; ".join(dict.fromkeys(told)) or "it asks for no topology")


def _resources(context: Context, resource: Published) -> Iterator[Published]:
    """The resource that the system reads; for Grove also the KAI Topology that it schedules by."""
    yield resource
    if (resource.api_version.rpartition("/")[0], resource.kind) == BINDING.key:
        kai = published_as(context.snapshot, kai_name(resource), (KAI_TOPOLOGY,))
        if kai:
            yield kai


def kai_name(binding: Published) -> str:
    """The KAI Topology by which a binding's workloads are scheduled: the one that it names, else its own name."""
    return named_kai(binding) or binding.name


def named_kai(binding: Published) -> str:
    """The KAI Topology that a binding names, so that Grove makes none; empty when it names none."""
    for entry in (Field(binding.document) / "spec" / "schedulerTopologyBindings").items():
        if (entry / "schedulerName").text() == "kai-scheduler":
            return (entry / "topologyReference").text() or ""
    return ""


def _keys(resource: Published) -> list[str]:
    return [level.key for level in resource.levels]


def _says(resource: Published, scope: Scope) -> bool:
    """Whether it has the levels of the ClusterTopology; one that is gone from all nodes may be there or not."""
    table = scope.table()
    all_keys = [level.key for level in scope.levels]
    there = [key for key in all_keys if table.column(key).different]
    return _keys(resource) in (all_keys, there)


def _drifted(resource: Published, scope: Scope) -> Step:
    entries = Field(scope.topology.status if scope.topology else None) / "published"
    told = [
        f"ClusterTopology {scope.name} says of it: {message}"
        for entry in entries.items()
        if (entry / "apiVersion").text() == resource.api_version
        and (entry / "kind").text() == resource.kind
        and (message := (entry / "message").text())
    ]
    return failed(
        NAME,
        f"{resource.handle} differs from ClusterTopology {scope.name}",
        f"it has {_path(_keys(resource))}",
        f"the ClusterTopology has {_path([level.key for level in scope.levels])}",
        *told[:1],
        commands=(f"kubectl describe gtopo {scope.name}", f"kubectl get {_kubectl_name(resource)} -o yaml"),
    )


def _groves_own(binding: Published) -> Step | None:
    """What Grove found when it compared its backends' topologies with the binding."""
    said = condition(binding.document, _DRIFT)
    if said is None or said.status == "False":
        return None
    about = [
        f"{(status / 'schedulerName').text()}: {(status / 'message').text()}"
        for status in (Field(binding.document) / "status" / "schedulerTopologyStatuses").items()
        if not (status / "inSync").flag(default=True) and (status / "message").text()
    ]
    command = f"kubectl describe {_kubectl_name(binding)}"
    message = f"Grove says of {binding.handle}: {_DRIFT}={said.status} ({said.reason}): {said.message}"
    if said.status == "True":
        return failed(NAME, message, *about, commands=(command, f"kubectl get {KAI_TOPOLOGY.name}"))
    return unknown(NAME, message, *about, commands=(command,))


def _between(chain: Sequence[Published]) -> Step | None:
    """A binding and the KAI Topology made of it that differ, where Grove does not say so."""
    if len(chain) == 1 or _keys(chain[0]) == _keys(chain[1]):
        return None
    binding, kai = chain
    return failed(
        NAME,
        f"{kai.handle}, by which its pods are scheduled, differs from {binding.handle}",
        f"it has {_path(_keys(kai))}",
        f"the binding has {_path(_keys(binding))}",
        commands=(f"kubectl get {_kubectl_name(kai)} -o yaml", f"kubectl describe {_kubectl_name(binding)}"),
    )


def _path(keys: Sequence[str]) -> str:
    return " > ".join(keys) or "no levels"


def _kubectl_name(resource: Published) -> str:
    """`topologies.kai.scheduler cluster`: no other API group's topologies."""
    group = resource.api_version.rpartition("/")[0]
    plural = "topologies" if resource.kind != BINDING.kind else BINDING.plural
    plural = "clustertopologies" if resource.kind == "ClusterTopology" else plural
    return f"{plural}.{group} {resource.name}"
