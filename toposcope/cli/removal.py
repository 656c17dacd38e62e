"""Finds what Toposcope wrote to a cluster, and deletes it in the order in which it has to go."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from toposcope.agent.publish import Removal, removal
from toposcope.api.cluster_topology import GROUP, KIND, MANAGED_BY, PATH, TOPOSCOPE
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.cli.output import cleaned
from toposcope.errors import ToposcopeError
from toposcope.integrations import binding_paths, node_plan
from toposcope.integrations.registry import PUBLISHED, holders
from toposcope.kube.client import ApiClient, Request, find
from toposcope.kube.config import pod_namespace
from toposcope.kube.discovery import discover
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.kube.requests import NODES
from toposcope.kube.runtime import REAL, Runtime

WRITERS: Final = (
    "app.kubernetes.io/name=toposcope,app.kubernetes.io/component in (agent,controller,switches)"
)
"""Selects the programs and pods that could write again, whatever an overlay calls them.

The page's only reads.
"""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object to delete, identified by its uid. `handle` is what `kubectl get` calls it."""

    handle: str
    path: str
    uid: str
    holders: tuple[str, ...] = ()
    """What uses it, in words, and has to stop first."""
    remark: str = ""
    """What an admin should know before it goes."""
    namespace: str = ""
    """A program's."""


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """Everything to delete, in order."""

    programs: tuple[Thing, ...]
    """First: they would write the rest again."""
    published: tuple[Thing, ...]
    """Then what schedulers read, while the labels in it still exist."""
    topologies: tuple[Thing, ...]
    plans: tuple[Thing, ...]
    """Then the controller's own objects: what agents follow, and where nodes are."""
    nodes: tuple[Removal, ...]
    """Last, because published resources refer to their labels."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to delete."""
        return not (self.programs or self.published or self.topologies or self.plans or self.nodes)

    @property
    def held(self) -> tuple[Thing, ...]:
        """What is in use: its deletion would not end before the last use does."""
        return tuple(thing for thing in self.published if thing.holders)

    @property
    def cleaned(self) -> str:
        """`1 node of 16 labels and annotations`."""
        return cleaned(len(self.nodes), sum(node.keys for node in self.nodes))


def find_all(client: ApiClient) -> RemovalPlan:
    """Find everything.

    Raises KubeError, even if only one kind must not be read: a partial plan would mislead.
    """
    programs = tuple(_programs(client))
    return RemovalPlan(
        programs=programs,
        published=tuple(_published(client)),
        topologies=tuple(_topologies(client)),
        plans=tuple(_plans(client, programs)),
        nodes=tuple(_nodes(client)),
    )


def _programs(client: ApiClient) -> Iterator[Thing]:
    for plural in ("daemonsets", "deployments"):
        for metadata in _writers(client, "/apis/apps/v1", plural):
            name, namespace = metadata["name"], metadata["namespace"]
            yield Thing(
                handle=f"{plural[:-1]}.apps/{name}",
                path=f"/apis/apps/v1/namespaces/{namespace}/{plural}/{name}",
                uid=metadata["uid"],
                namespace=namespace,
            )


def _writers(client: ApiClient, root: str, plural: str) -> list[Any]:
    """The metadata of what could write again; without rights elsewhere, in our namespace only."""
    home = pod_namespace() or HOME_NAMESPACE
    for where in ("", f"namespaces/{home}/"):
        try:
            path = f"{root}/{where}{plural}"
            writers = everything(client, path, selector=WRITERS, is_metadata_only=True)
            return [writer["metadata"] for writer in writers]
        except ApiError as error:
            if error.is_not_found:
                return []
            if where or not error.is_forbidden:
                raise
    raise AssertionError("the last attempt returns or raises")


def _published(client: ApiClient) -> Iterator[Thing]:
    served = discover(client, PUBLISHED)
    for kind in PUBLISHED:
        version = served.version(kind)
        if version is None:
            continue
        path = kind.path(version)
        for resource in everything(client, path):
            metadata = resource["metadata"]
            if _is_ours(metadata):
                name = metadata["name"]
                yield Thing(
                    handle=f"{kind.kind.lower()}.{kind.group}/{name}",
                    path=f"{path}/{name}",
                    uid=metadata["uid"],
                    holders=tuple(holders(client, kind, resource)),
                )


def _is_ours(metadata: Mapping[str, Any]) -> bool:
    """Whether the controller made it: its label, and an owner of our kind."""
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != TOPOSCOPE:
        return False

    for owner in metadata.get("ownerReferences") or ():
        group, _, _ = owner["apiVersion"].partition("/")
        if group == GROUP and owner["kind"] == KIND:
            return True
    return False


def _topologies(client: ApiClient) -> Iterator[Thing]:
    try:
        documents = everything(client, PATH)
    except ApiError as error:
        if error.is_not_found:
            return
        raise

    for document in documents:
        metadata = document["metadata"]
        name = metadata["name"]
        requirers = ", ".join(_requirers(document.get("status") or {}))
        yield Thing(
            handle=f"{KIND.lower()}.{GROUP}/{name}",
            path=f"{PATH}/{name}",
            uid=metadata["uid"],
            remark=f"workloads require levels of it: {requirers}" if requirers else "",
        )


def _requirers(status: Mapping[str, Any]) -> Iterator[str]:
    """The levels that workloads require, and how many do."""
    for demand in status.get("requiredBy") or ():
        workloads = demand.get("workloads")
        if workloads:
            yield f"{demand['domain']} ({workloads})"


def _plans(client: ApiClient, programs: Iterable[Thing]) -> Iterator[Thing]:
    """The controller's own objects, in the namespaces where controllers are or were."""
    home = pod_namespace() or HOME_NAMESPACE
    for namespace in dict.fromkeys((home, *(program.namespace for program in programs))):
        plan = f"/api/v1/namespaces/{namespace}/configmaps/{node_plan.CONFIG_MAP}"
        paths = binding_paths.path_of_object(namespace)
        for handle, path in (
            (f"configmap/{node_plan.CONFIG_MAP}", plan),
            (f"{binding_paths.KIND.lower()}.{GROUP}/{binding_paths.NAME}", paths),
        ):
            document = find(client, path)
            if document is None:
                continue
            metadata = document["metadata"]
            labels = metadata.get("labels") or {}
            if labels.get(MANAGED_BY) == TOPOSCOPE:
                yield Thing(handle, path, metadata["uid"])


def _nodes(client: ApiClient) -> Iterator[Removal]:
    for node in everything(client, NODES, is_metadata_only=True):
        to_remove = removal(node["metadata"])
        if to_remove.requests:
            yield to_remove


_PAUSE_SECONDS: Final = 1.0
_UNPROCESSABLE_STATUS: Final = 422


class WaitTimeoutError(ToposcopeError):
    """Something was not gone in time; the message says what, and what to do."""


@dataclass(frozen=True)
class Remover:
    """Carries out one plan; `report` gets a line for each thing done."""

    client: ApiClient
    report: Callable[[str], None]
    patience_seconds: float
    runtime: Runtime = REAL

    def carry_out(self, plan: RemovalPlan) -> None:
        """Remove everything.

        Raises KubeError and WaitTimeoutError; what was removed before stays removed.
        """
        self._delete(plan.programs, "stopped")
        self._wait(
            self._pods,
            "pods of Toposcope are still running and would write again: "
            "see `kubectl get pods -n {0}`; delete those "
            "on nodes that are down with `kubectl delete pod --force`",
        )
        self._delete(plan.published, "deleted")
        self._delete(plan.topologies, "deleted")
        self._delete(plan.plans, "deleted")
        for node in plan.nodes:
            for request in node.requests:
                self._send(request)

        if plan.nodes:
            self.report(f"cleaned {plan.cleaned}")

    def _delete(self, things: Iterable[Thing], done: str) -> None:
        for resource in things:
            options = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
                "preconditions": {"uid": resource.uid},
            }
            self._send(Request("DELETE", resource.path, {}, msgspec.json.encode(options)))

        for resource in things:
            self._wait(
                functools.partial(self._obstacle_to, resource),
                f"{resource.handle} is being deleted but still exists; {{0}}",
            )
            self.report(f"{done} {resource.handle}")

    def _send(self, request: Request) -> None:
        """Send the request.

        Objects that are gone or were replaced are no error: the check at the end finds new ones.
        """
        try:
            self.client.call(request)
        except ApiError as error:
            if not (
                error.is_not_found or error.is_conflict or error.status == _UNPROCESSABLE_STATUS
            ):
                raise

    def _obstacle_to(self, thing: Thing) -> str:
        """Why the object still exists; empty once it does not."""
        document = find(self.client, thing.path)
        if document is None or document["metadata"]["uid"] != thing.uid:
            return ""
        finalizers = document["metadata"].get("finalizers") or ()
        if finalizers:
            return f"its finalizers block it: {', '.join(finalizers)}"
        return "see `kubectl get -o yaml` of it"

    def _pods(self) -> str:
        """Where pods still run, as flags of kubectl; empty once none does."""
        pods = _writers(self.client, "/api/v1", "pods")
        if not pods:
            return ""
        namespace = pods[0]["namespace"]
        return f"{namespace} -l '{WRITERS}'"

    def _wait(self, obstacle: Callable[[], str], template: str) -> None:
        """Poll until `obstacle` names none. Raises WaitTimeoutError with it in the template."""
        deadline = self.runtime.monotonic() + self.patience_seconds
        why = obstacle()
        while why:
            if self.runtime.monotonic() >= deadline:
                text = template.format(why)
                raise WaitTimeoutError(
                    f"{text}; then run it again (waited {self.patience_seconds:g} s)"
                )
            self.runtime.event().wait(_PAUSE_SECONDS)
            why = obstacle()
