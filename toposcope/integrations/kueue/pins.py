"""The node selectors that Kueue adds to the pods of an admitted Workload.

Source: Kueue 0.19.2: the labels of the domain that a pod got (pkg/controller/tas), and the
`nodeLabels` of its ResourceFlavors (pkg/podset).
"""

from collections.abc import Iterator
from typing import Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import Object, Ref
from toposcope.integrations.framework.waiting import Pin, WaitingWorkload
from toposcope.integrations.kueue.api import FLAVORS, WORKLOAD
from toposcope.integrations.kueue.queues import AssignedDomain, assigned_domains
from toposcope.text import Command, listing, plural, shell

_WHO: Final = "Kueue"
_MOST_OTHERS: Final = 3


def pin(workload: WaitingWorkload, key: str, value: str) -> Pin | None:
    """Why Kueue added a node selector; None if it did not."""
    for ref, document in workload.members(WORKLOAD):
        for domain in assigned_domains(document):
            if (key, value) in zip(domain.levels, domain.values, strict=False):
                return _assigned(workload, ref, domain)
        for flavor in _flavors(document):
            if _has_label(workload, flavor, key, value):
                return Pin(_WHO, f"ResourceFlavor {flavor} has it in spec.nodeLabels")
    return None


def _assigned(workload: WaitingWorkload, ref: Ref, domain: AssignedDomain) -> Pin:
    """The pin to a domain of a topology assignment."""
    name = _name_of(workload, domain)
    others = list(_also_assigned(workload, domain))
    way_out = []
    if others:
        names = listing(others, _MOST_OTHERS)
        way_out.append(f"Kueue assigned {name} to {names}, too")
    way_out.append(
        "Kueue keeps an assignment while its Workload is admitted; to make Kueue assign it "
        f"again, set spec.active of {ref.handle} to false, and to true again"
    )
    return Pin(
        who=_WHO,
        why=f"{ref.handle} is assigned to it",
        way_out=tuple(way_out),
        commands=(_show(ref),),
    )


def _name_of(workload: WaitingWorkload, domain: AssignedDomain) -> str:
    """The domain's narrowest value, or a Node's name as in `kubectl get node`."""
    value = domain.values[-1]
    if domain.levels[-1] != HOSTNAME:
        return value
    for node in workload.cluster_nodes.values():
        if node.label(HOSTNAME) == value:
            return node.name
    return value


def _show(ref: Ref) -> Command:
    return shell("kubectl get {} {} -n {} -o yaml", WORKLOAD.name, ref.name, ref.namespace)


def _also_assigned(workload: WaitingWorkload, domain: AssignedDomain) -> Iterator[str]:
    """Other Workloads that are assigned to the same domain."""
    own = {ref for ref, _ in workload.members(WORKLOAD)}
    for ref, document in workload.every(WORKLOAD):
        if ref in own:
            continue
        pods = 0
        for assigned in assigned_domains(document):
            if (assigned.levels, assigned.values) == (domain.levels, domain.values):
                pods += assigned.pods
        if pods:
            yield f"{ref.handle} ({pods} {plural(pods, 'pod')})"


def _flavors(document: Object) -> Iterator[str]:
    """The ResourceFlavors of a Workload's admission."""
    assignments = Field(document) / "status" / "admission" / "podSetAssignments"
    for assigned in assignments.items():
        yield from (assigned / "flavors").texts().values()


def _has_label(workload: WaitingWorkload, flavor: str, key: str, value: str) -> bool:
    document = workload.store.find(FLAVORS, flavor)
    if document is None:
        return False
    labels = (Field(document) / "spec" / "nodeLabels").texts()
    return labels.get(key) == value
