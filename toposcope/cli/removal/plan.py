"""What Toposcope has left in a cluster: its programs, what it published, its ClusterTopologies, its marks on Nodes."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.agent.publish import Removal, removal
from toposcope.api.cluster_topology import GROUP, HOME_NAMESPACE, KIND, MANAGED_BY, PATH, TOPOSCOPE
from toposcope.controller.publishers import kueue
from toposcope.integrations.framework.published import finalizers
from toposcope.integrations.kueue.api import TOPOLOGIES as KUEUE_TOPOLOGIES
from toposcope.integrations.watched import PUBLISHED
from toposcope.kube.client import ApiClient, find
from toposcope.kube.discovery import discover
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.kube.requests import NODES

_APPS: Final = f"/apis/apps/v1/namespaces/{HOME_NAMESPACE}"
_PROGRAMS: Final = (
    ("DaemonSet", f"{_APPS}/daemonsets/toposcope-agent"),
    ("Deployment", f"{_APPS}/deployments/toposcope-controller"),
)


@dataclass(frozen=True, slots=True)
class Thing:
    """One object to delete: this very one, by its uid. `handle` is what `kubectl get` calls it."""

    handle: str
    path: str
    uid: str
    holders: tuple[str, ...] = ()
    """Who, in words, must let go of it first."""
    remark: str = ""
    """What an admin should know before it goes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is to go, in the order in which it has to."""

    programs: tuple[Thing, ...]
    """First: they would write everything else again."""
    published: tuple[Thing, ...]
    """Then what schedulers read, while the labels that it names are still there."""
    topologies: tuple[Thing, ...]
    nodes: tuple[Removal, ...]
    """Last, because what was published speaks of them."""

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return not (self.programs or self.published or self.topologies or self.nodes)

    @property
    def held(self) -> tuple[Thing, ...]:
        """What somebody else holds: deleted, it would stay half deleted until they let go."""
        return tuple(thing for thing in self.published if thing.holders)


def look(client: ApiClient) -> Plan:
    """Find all of it. Raises KubeError, also when something may not be looked at: half a look is none."""
    return Plan(
        programs=tuple(_programs(client)),
        published=tuple(_published(client)),
        topologies=tuple(_topologies(client)),
        nodes=tuple(_nodes(client)),
    )


def _programs(client: ApiClient) -> Iterator[Thing]:
    for kind, path in _PROGRAMS:
        there = find(client, path)
        if there is not None:
            yield Thing(f"{kind.lower()}.apps/{there['metadata']['name']}", path, there["metadata"]["uid"])


def _published(client: ApiClient) -> Iterator[Thing]:
    served = discover(client, PUBLISHED)
    for kind in PUBLISHED:
        version = served.version(kind)
        if version is None:
            continue
        path = f"/apis/{kind.group}/{version}/{kind.plural}"
        held: Callable[[Mapping[str, Any]], list[str]] = finalizers
        if kind is KUEUE_TOPOLOGIES:
            held = functools.partial(kueue.holders, client)
        for there in everything(client, path):
            metadata = there["metadata"]
            if _made_by_us(metadata):
                name = metadata["name"]
                handle = f"{there['kind'].lower()}.{kind.group}/{name}"
                yield Thing(handle, f"{path}/{name}", metadata["uid"], tuple(held(there)))


def _made_by_us(metadata: Mapping[str, Any]) -> bool:
    """Whether the controller made it: its label and an owner of our kind, as with everything that it publishes."""
    labels, owners = metadata.get("labels") or {}, metadata.get("ownerReferences") or ()
    return labels.get(MANAGED_BY) == TOPOSCOPE and any(
        (owner["apiVersion"].partition("/")[0], owner["kind"]) == (GROUP, KIND) for owner in owners
    )


def _topologies(client: ApiClient) -> Iterator[Thing]:
    try:
        found = everything(client, PATH)
    except ApiError as error:
        if error.not_found:
            return
        raise
    for there in found:
        metadata = there["metadata"]
        demands = (there.get("status") or {}).get("requiredBy") or ()
        told = ", ".join(f"{demand['domain']} ({demand['workloads']})" for demand in demands if demand.get("workloads"))
        remark = f"workloads require levels of it: {told}" if told else ""
        name = metadata["name"]
        yield Thing(f"{KIND.lower()}.{GROUP}/{name}", f"{PATH}/{name}", metadata["uid"], remark=remark)


def _nodes(client: ApiClient) -> Iterator[Removal]:
    for node in everything(client, NODES, metadata_only=True):
        found = removal(node["metadata"])
        if found.requests:
            yield found
