"""Dynamo's DynamoGraphDeployment: one topology for the deployment, a level for it and for each component.

Rules and messages: the CRDs of v1alpha1 and v1beta1 and the newest webhook (main, 2026-08), which says the same of both
versions. v1alpha1 has resources in Dynamo's own form and the rest of the pod in `extraPodSpec`; v1beta1 has a whole pod
template. The topology is looked up on the Grove pathway only. There Dynamo makes a clique of each component, and a
scaling group of one with several nodes, so that each of its replicas is kept together by itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS, HOSTNAME
from toposcope.integrations.dynamo.api import DEPLOYMENTS, GROVE_PATHWAY, TOPOLOGY_NAMES, components
from toposcope.integrations.dynamo.transfer import check_transfer, check_transfer_unchanged
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.pods import amounts_of, pods_of, requests_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, System
from toposcope.topology.levels import Level

_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_OLDER_NAME, _NEWEST_NAME = TOPOLOGY_NAMES
_IMMUTABLE: Final = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change topology constraints"
)


@dataclass(frozen=True, slots=True)
class _Component:
    """One component: its replicas are `nodes` pods each."""

    name: str
    field: Field
    replicas: int
    nodes: int
    pods: Pods
    """The pods of one replica."""

    @property
    def constraint(self) -> Field:
        return self.field / "topologyConstraint"


def _components(spec: Field) -> Iterator[_Component]:
    for name, field in components(spec):
        older = field.path.startswith("spec.services")
        pod = field / "extraPodSpec" if older else field / "podTemplate" / "spec"
        nodes = (field / "multinode" / "nodeCount").number(1, least=1)
        pods = pods_of(name, nodes, pod, *([_main_container(field)] if older else ()))
        yield _Component(name, field, (field / "replicas").number(1), nodes, pods)


def _main_container(service: Field) -> dict[str, int]:
    """The requests of the container that Dynamo adds; `extraPodSpec.mainContainer` overrides the rest."""
    resources = service / "resources"
    override = requests_of(service / "extraPodSpec" / "mainContainer" / "resources")
    return _amounts(resources / "limits") | _amounts(resources / "requests") | override


def _amounts(resources: Field) -> dict[str, int]:
    """Dynamo's `gpu` counts what `gpuType` names; `custom` has other resources by their names."""
    plain = {name: field.value for name, field in resources.properties() if name not in ("gpuType", "custom")}
    amounts = amounts_of(Field(plain, resources.path, resources.findings))
    if "gpu" in amounts:
        amounts[(resources / "gpuType").text() or ALLOCATABLE_GPUS] = amounts.pop("gpu")
    return amounts | amounts_of(resources / "custom")


@dataclass(frozen=True, slots=True)
class _Top:
    """The deployment's own constraint."""

    field: Field
    name: str | None = None
    topology: TopologyLevels | None = None
    """None: not known, or not looked at."""
    level: Level | None = None


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    spec = root / "spec"
    parts = tuple(_components(spec))
    grove = str(_pathway(root).value).lower() != "false"
    top = _top(root, parts, cluster, look=grove)
    levels = {component.name: _component_level(component, top, root) for component in parts}
    check_transfer(spec, cluster, _pathway(root), newest=_name_field(root) == _NEWEST_NAME)
    if before is not None:
        _check_unchanged(root, parts, before)
    if grove:
        _warn_of_host(top, parts, levels)
    else:
        _warn_not_enforced(root, top, parts)
    whole = _tree(root, top, parts, levels)
    topology = top.name if any(group.required for group, _ in whole.everything()) else None
    invalid = grove and _misunderstood(top, parts, levels)
    notes = (LEVELS_FIRST,) if invalid else ()
    return Reading(Workload("Dynamo", handle_of(root), (whole,), topology, placeable=not invalid, notes=notes))


SYSTEM: Final = System("Dynamo", lambda document: kind_of(document) == DEPLOYMENTS.key, _read, "grove")


def _pathway(root: Field) -> Field:
    return root / "metadata" / "annotations" / GROVE_PATHWAY


def _name_field(root: Field) -> str:
    """What the version calls the field with the topology's name."""
    return _OLDER_NAME if str((root / "apiVersion").value).endswith("/v1alpha1") else _NEWEST_NAME


def _top(root: Field, parts: Sequence[_Component], cluster: ClusterFacts, *, look: bool) -> _Top:
    constraint = root / "spec" / "topologyConstraint"
    name = constraint / _name_field(root)
    constrained = any(component.constraint for component in parts)
    if not constraint:
        if constrained:
            text = "is required when any component topology constraint is set"
            fix = (
                f"name the topology: spec.topologyConstraint.{_name_field(root)}",
                did_you_mean("", cluster.topologies),
            )
            constraint.error("dynamo/topology-constraint", text, "; ".join(filter(None, fix)))
        return _Top(constraint)
    _check_name(constraint, name, cluster, look=look)
    topology = cluster.topologies.get(name.text() or "") if look else None
    pack = constraint / "packDomain"
    if not pack.text() and not constrained:
        text = "is required when no component topologyConstraint is set"
        pack.error("dynamo/some-domain", text, "name a level here or on a component")
    return _Top(constraint, name.text(), topology, _level(pack, topology))


def _check_name(constraint: Field, name: Field, cluster: ClusterFacts, *, look: bool) -> None:
    topology = name.text()
    fix = cluster.missing(topology or "")
    if name.value is None:
        other = next((other for other in TOPOLOGY_NAMES if constraint / other), "")
        renamed = f"this version calls {other!r} {name.path.rpartition('.')[2]!r}"
        name.error("dynamo/topology-name", "Required value", renamed if other else fix)
    elif not name.value:
        name.error("dynamo/topology-name", f"{name.path} in body should be at least 1 chars long", fix)
    elif topology and look and topology not in cluster.topologies:
        name.error("dynamo/topology-exists", "references a ClusterTopologyBinding resource that was not found", fix)


def _level(pack: Field, topology: TopologyLevels | None) -> Level | None:
    domain = pack.text()
    if domain is None and pack.value != "":
        return None
    domain = domain or ""
    if not _DOMAIN.fullmatch(domain):
        pack.error(
            "dynamo/domain-pattern",
            f"{pack.path} in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'",
            _fix(domain, topology) or "write lower-case letters, digits and '-', as the topology names its levels",
        )
        return None
    return _existing_level(pack, domain, topology)


def _existing_level(pack: Field, domain: str, topology: TopologyLevels | None) -> Level | None:
    if topology is None:
        return None
    level = topology.by_domain(domain)
    if level is None:
        available = " ".join(sorted(topology.domains))
        text = f'does not exist in ClusterTopologyBinding "{topology.name}"; available domains: [{available}]'
        pack.error("dynamo/domain-exists", text, _fix(domain, topology))
    return level


def _fix(domain: str, topology: TopologyLevels | None) -> str:
    if topology is None:
        return ""
    by_key = topology.level(domain)
    if by_key:
        return f"Dynamo takes the domain: write {by_key.domain!r}"
    return did_you_mean(domain.lower(), topology.domains)


def _component_level(component: _Component, top: _Top, root: Field) -> Level | None:
    if not component.constraint:
        return None
    pack = component.constraint / "packDomain"
    if pack.value is None:
        if _name_field(root) == _NEWEST_NAME:
            _existing_level(pack, "", top.topology)
        else:
            pack.error("dynamo/component-domain", "Required value", "name a level, or remove topologyConstraint")
        return None
    level = _level(pack, top.topology)
    if level and top.level and top.topology and top.topology.rank(level) < top.topology.rank(top.level):
        pack.error(
            "dynamo/hierarchy",
            f'must be equal to or narrower than the deployment-level domain "{top.level.domain}"',
            f"use {top.level.domain!r} or something narrower here, or something broader on the deployment",
        )
        return None
    return level


def _misunderstood(top: _Top, parts: Sequence[_Component], levels: Mapping[str, Level | None]) -> bool:
    """Whether a constraint asks for something that is no level, or not a possible one."""
    if (top.field / "packDomain").value is not None and top.level is None:
        return True
    return any(component.constraint and levels[component.name] is None for component in parts)


def _tree(root: Field, top: _Top, parts: Sequence[_Component], levels: Mapping[str, Level | None]) -> Group:
    groups = []
    for component in parts:
        level, pods, replicas = levels[component.name], component.pods, component.replicas
        if component.nodes > 1:
            groups.append(Group(f"replica of {component.name}", (pods,), required=level, copies=replicas))
        else:
            all_pods = replace(pods, count=pods.count * replicas)
            groups.append(Group(f"component {component.name}", (all_pods,), required=level))
    return Group(name_of(root, DEPLOYMENTS.kind), groups=tuple(groups), required=top.level)


def _warn_of_host(top: _Top, parts: Sequence[_Component], levels: Mapping[str, Level | None]) -> None:
    """Several nodes on one host is a contradiction, unless the pods use a part of the node each."""
    for component in parts:
        own = levels[component.name]
        level, constraint = (own, component.constraint) if own else (top.level, top.field)
        if component.nodes > 1 and level and level.key == HOSTNAME:
            (constraint / "packDomain").warn(
                "dynamo/host-multinode",
                f"{level.domain!r} keeps all {component.nodes} nodes' pods of a replica of {component.name!r} on a "
                "single host",
                "use a broader level, such as the rack, for what spans several nodes",
            )


def _warn_not_enforced(root: Field, top: _Top, parts: Sequence[_Component]) -> None:
    if top.field or any(component.constraint for component in parts):
        setting = f"{GROVE_PATHWAY}: {str(_pathway(root).value).lower()!r}"
        _pathway(root).warn(
            "dynamo/grove-pathway",
            f"with {setting} topology constraints are neither checked nor kept",
            "remove the annotation, or the constraints",
        )


def _check_unchanged(root: Field, parts: Sequence[_Component], before: Field) -> None:
    """Constraints cannot change once the deployment exists; the two may be in different versions."""
    then = _constraint(before)
    if _constraint(root) != then:
        fix = f"it is topology {then[0]!r}, packDomain {then[1]!r} in the cluster" if then else "it is not set there"
        (root / "spec" / "topologyConstraint").error("dynamo/immutable", _IMMUTABLE, fix)
    domains = {component.name: _domain(component.constraint) for component in _components(before / "spec")}
    for component in parts:
        if component.name in domains and domains[component.name] != _domain(component.constraint):
            domain = domains[component.name]
            shown = "not set" if domain is None else f"packDomain {domain[0]!r}"
            component.constraint.error("dynamo/immutable", _IMMUTABLE, f"it is {shown} in the cluster")
    check_transfer_unchanged(root / "spec", before / "spec")


def _constraint(root: Field) -> tuple[Any, Any] | None:
    constraint = root / "spec" / "topologyConstraint"
    return ((constraint / _name_field(root)).text(), (constraint / "packDomain").text()) if constraint else None


def _domain(constraint: Field) -> tuple[Any] | None:
    return ((constraint / "packDomain").text(),) if constraint else None
