"""Kueue: the workload's queue leads to a flavor with a topology, and the queues are up."""

from collections.abc import Iterator
from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.features import NAME
from toposcope.explain.kinds import CLUSTER_QUEUE, FLAVOR, KUEUE_WORKLOAD, LOCAL_QUEUE
from toposcope.explain.object_store import Object, condition
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.integrations.framework.document import Field
from toposcope.integrations.kueue.workload import QUEUE_NAME


def is_managed(context: Context) -> bool:
    """Whether Kueue has made a Workload of it."""
    return any(context.members(KUEUE_WORKLOAD))


def look(context: Context) -> Iterator[Step]:
    """From the queue's name to the flavors of its ClusterQueue."""
    if not any(workload.system == "Kueue" for workload in context.workloads):
        return
    name = _queue(context)
    namespace = context.demand.namespace
    if name is None:
        yield unknown(NAME, "the workload names no queue, so which flavors Kueue would use is not known")
        return
    queue = context.store.find(LOCAL_QUEUE, name, namespace)
    if queue is None:
        hidden = context.store.hidden(LOCAL_QUEUE)
        command = f"kubectl get {LOCAL_QUEUE.name} -n {namespace}"
        if hidden:
            yield unknown(NAME, f"the queue {name} cannot be seen: {hidden}", commands=(command,))
        else:
            yield failed(NAME, f"there is no LocalQueue {name} in namespace {namespace}", commands=(command,))
        return
    cluster_queue = (Field(queue) / "spec" / "clusterQueue").text() or ""
    yield from _cluster_queue(context, cluster_queue)


def _queue(context: Context) -> str | None:
    root = Field(context.document)
    own = (root / "metadata" / "labels" / QUEUE_NAME).text() or (root / "spec" / "queueName").text()
    made = [(Field(document) / "spec" / "queueName").text() for _, document in context.members(KUEUE_WORKLOAD)]
    return own or next(iter(filter(None, made)), None)


_ACTIVE: Final = "Active"


def _cluster_queue(context: Context, name: str) -> Iterator[Step]:
    found = context.store.find(CLUSTER_QUEUE, name)
    describe = (f"kubectl describe {CLUSTER_QUEUE.name} {name}",)
    if found is None:
        hidden = context.store.hidden(CLUSTER_QUEUE)
        if hidden:
            yield unknown(NAME, f"the ClusterQueue {name} cannot be seen: {hidden}", commands=describe)
        else:
            yield failed(NAME, f"there is no ClusterQueue {name}", commands=(f"kubectl get {CLUSTER_QUEUE.name}",))
        return
    active = condition(found, _ACTIVE)
    if active and active.status == "False":
        yield failed(NAME, f"ClusterQueue {name} is not active ({active.reason}): {active.message}", commands=describe)
        return
    yield _flavors(context, name, found)


def _flavors(context: Context, name: str, queue: Object) -> Step:
    groups = (Field(queue) / "spec" / "resourceGroups").items()
    flavors = {text for group in groups for each in (group / "flavors").items() if (text := (each / "name").text())}
    hidden = context.store.hidden(FLAVOR)
    if hidden:
        return unknown(NAME, f"whether the flavors of ClusterQueue {name} have a topology is not known: {hidden}")
    having = {}
    for flavor in sorted(flavors):
        document = context.store.find(FLAVOR, flavor)
        topology = (Field(document) / "spec" / "topologyName").text() if document else None
        if topology:
            having[flavor] = topology
    if not having:
        return failed(
            NAME,
            f"no flavor of ClusterQueue {name} has a topology, so Kueue cannot keep its pods together",
            f"set spec.topologyName on a ResourceFlavor ({', '.join(sorted(flavors)) or 'it has none'})",
            commands=(f"kubectl get {FLAVOR.name} -o yaml",),
        )
    told = ", ".join(f"{flavor} (topology {topology})" for flavor, topology in having.items())
    return passed(NAME, f"ClusterQueue {name} offers {told}")
