"""Dynamo's DynamoGraphDeployment: one topology for the deployment, a level for it and for each component.

Rules and messages: the CRDs of v1alpha1 and v1beta1 and the newest webhook (main, 2026-08), which says the same of both
versions. The topology is looked up on the Grove pathway only. There Dynamo makes a clique of each component, and a
scaling group of one with several nodes, so that each of its replicas is kept together by itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS, HOSTNAME
from toposcope.integrations.dynamo.transfer import check_transfer, check_transfer_unchanged
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, is_kind
from toposcope.integrations.framework.levels import TopologyLevels, near
from toposcope.integrations.framework.pods import amounts_of, pods_of, requests_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, merged
from toposcope.topology.levels import Level

_GPU: Final = "gpu"
_GPU_TYPE: Final = "gpuType"
_CUSTOM: Final = "custom"
"""Other resources by their names."""


@dataclass(frozen=True, slots=True)
class Component:
    """One component: its replicas are `nodes` pods each."""

    name: str
    part: Field
    replicas: int
    nodes: int
    pods: Pods
    """The pods of one replica."""

    @property
    def constraint(self) -> Field:
        """What it says about its own placement."""
        return self.part / "topologyConstraint"

    @property
    def multinode(self) -> bool:
        """Whether a replica is several pods, on a node each."""
        return self.nodes > 1

    def of(self, replicas: int) -> Pods:
        """The pods of so many replicas."""
        return replace(self.pods, count=self.nodes * replicas)


def components_of(spec: Field) -> Iterator[Component]:
    """The components, in the order of the document."""
    for name, part in (spec / "services").members():
        yield _component(name, part, part / "extraPodSpec", *_main_container(part))
    for part in (spec / "components").items():
        yield _component((part / "name").text() or part.path, part, part / "podTemplate" / "spec")


def _component(name: str, part: Field, pod: Field, *beside: dict[str, int]) -> Component:
    nodes = (part / "multinode" / "nodeCount").number(1, least=1)
    return Component(name, part, (part / "replicas").number(1), nodes, pods_of(name, nodes, pod, *beside))


def _main_container(service: Field) -> Iterator[dict[str, int]]:
    """What the container asks for that Dynamo adds; `extraPodSpec.mainContainer` has the last word on it."""
    resources = service / "resources"
    own = requests_of(service / "extraPodSpec" / "mainContainer" / "resources")
    yield _amounts(resources / "limits") | _amounts(resources / "requests") | own


def _amounts(resources: Field) -> dict[str, int]:
    """Dynamo's `gpu` is a number of what `gpuType` names."""
    plain = {name: part.value for name, part in resources.members() if name not in (_GPU_TYPE, _CUSTOM)}
    found = amounts_of(Field(plain, resources.path, resources.findings))
    if _GPU in found:
        found[(resources / _GPU_TYPE).text() or ALLOCATABLE_GPUS] = found.pop(_GPU)
    return found | amounts_of(resources / _CUSTOM)


KIND: Final = "DynamoGraphDeployment"
_GROUP: Final = "nvidia.com"
_PATHWAY: Final = "nvidia.com/enable-grove"
_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_NAMES: Final = {"v1alpha1": "topologyProfile"}
_NEWEST_NAME: Final = "clusterTopologyName"
_ALL_NAMES: Final = (*_NAMES.values(), _NEWEST_NAME)
_IMMUTABLE: Final = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change topology constraints"
)


@dataclass(frozen=True, slots=True)
class _Top:
    """The deployment's own constraint."""

    part: Field
    name: Field
    """Where the topology is named."""
    topology: str | None
    ladder: TopologyLevels | None
    """None: not known, or not looked at."""
    level: Level | None


class Dynamo:
    """Reads DynamoGraphDeployments."""

    name = "Dynamo"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every DynamoGraphDeployment is Dynamo's."""
        return is_kind(document, _GROUP, KIND)

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The deployment's demands; see System."""
        root = Field(document)
        spec = root / "spec"
        components = tuple(components_of(spec))
        grove = uses_grove(root)
        top = _top(root, components, known, look=grove)
        levels = {component.name: _component_level(component, top, root) for component in components}
        check_transfer(spec, known, _pathway(root), newest=_name_of(root) == _NEWEST_NAME)
        if before is not None:
            _check_unchanged(root, components, Field(before))
        if grove:
            _advise_no_host(top, components, levels)
        else:
            _warn_not_enforced(root, top, components)
        whole = _tree(root, top, components, levels)
        topology = top.topology if any(group.required for group, _ in whole.everything()) else None
        wrong = grove and _misunderstood(top, components, levels)
        notes = (LEVELS_FIRST,) if wrong else ()
        workload = Workload(self.name, handle_of(root), (whole,), topology, placeable=not wrong, notes=notes)
        return Reading(workload, merged(root.findings))


def uses_grove(root: Field) -> bool:
    """Whether the deployment is left to Grove: nobody else keeps pods together for Dynamo."""
    return str(_pathway(root).value).lower() != "false"


def _pathway(root: Field) -> Field:
    return root / "metadata" / "annotations" / _PATHWAY


def _name_of(root: Field) -> str:
    """What the version calls the field with the topology's name."""
    version = str((root / "apiVersion").value).rpartition("/")[2]
    return _NAMES.get(version, _NEWEST_NAME)


def _top(root: Field, components: Sequence[Component], known: ClusterFacts, *, look: bool) -> _Top:
    part = root / "spec" / "topologyConstraint"
    name = part / _name_of(root)
    constrained = [component for component in components if component.constraint]
    if not part:
        if constrained:
            text = "is required when any component topology constraint is set"
            fix = f"name the topology: spec.topologyConstraint.{_name_of(root)}"
            part.error("dynamo/topology-constraint", text, "; ".join(filter(None, (fix, near("", known.ladders)))))
        return _Top(part, name, None, None, None)
    topology = name.text()
    ladder = known.ladders.get(topology) if topology and look else None
    _check_name(part, name, known, look=look)
    pack = part / "packDomain"
    if not pack.text() and not constrained:
        text = "is required when no component topologyConstraint is set"
        pack.error("dynamo/some-domain", text, "name a level here or on a component")
    return _Top(part, name, topology, ladder, _level(pack, ladder))


def _check_name(part: Field, name: Field, known: ClusterFacts, *, look: bool) -> None:
    topology = name.text()
    offer = near(topology or "", known.ladders)
    if name.value is None:
        named = next((other for other in _ALL_NAMES if part / other), "")
        fix = f"this version calls {named!r} {name.path.rpartition('.')[2]!r}" if named else offer
        name.error("dynamo/topology-name", "Required value", fix)
    elif not name.value:
        name.error("dynamo/topology-name", f"{name.path} in body should be at least 1 chars long", offer)
    elif topology and look and topology not in known.ladders:
        name.error("dynamo/topology-exists", "references a ClusterTopologyBinding resource that was not found", offer)


def _level(pack: Field, ladder: TopologyLevels | None) -> Level | None:
    domain = pack.text()
    if domain is None and pack.value != "":
        return None
    domain = domain or ""
    if not _DOMAIN.fullmatch(domain):
        pack.error(
            "dynamo/domain-pattern",
            f"{pack.path} in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'",
            _fix(domain, ladder) or "write lower-case letters, digits and '-', as the topology names its levels",
        )
        return None
    return _found(pack, domain, ladder)


def _found(pack: Field, domain: str, ladder: TopologyLevels | None) -> Level | None:
    if ladder is None:
        return None
    level = next((level for level in ladder.levels if level.domain == domain), None)
    if level is None:
        available = " ".join(sorted(ladder.domains))
        text = f'does not exist in ClusterTopologyBinding "{ladder.name}"; available domains: [{available}]'
        pack.error("dynamo/domain-exists", text, _fix(domain, ladder))
    return level


def _fix(domain: str, ladder: TopologyLevels | None) -> str:
    if ladder is None:
        return ""
    by_key = ladder.level(domain)
    return f"Dynamo takes the domain: write {by_key.domain!r}" if by_key else near(domain.lower(), ladder.domains)


def _component_level(component: Component, top: _Top, root: Field) -> Level | None:
    constraint = component.constraint
    if not constraint:
        return None
    pack = constraint / "packDomain"
    if pack.value is None:
        if _name_of(root) == _NEWEST_NAME:
            _found(pack, "", top.ladder)
        else:
            pack.error("dynamo/component-domain", "Required value", "name a level, or remove topologyConstraint")
        return None
    level = _level(pack, top.ladder)
    if level and top.level and top.ladder and top.ladder.rank(level) < top.ladder.rank(top.level):
        pack.error(
            "dynamo/hierarchy",
            f'must be equal to or narrower than the deployment-level domain "{top.level.domain}"',
            f"use {top.level.domain!r} or something narrower here, or something broader on the deployment",
        )
        return None
    return level


def _misunderstood(top: _Top, components: Sequence[Component], levels: Mapping[str, Level | None]) -> bool:
    """Whether a constraint asks for something that is no level, or not a possible one."""
    if (top.part / "packDomain").value is not None and top.level is None:
        return True
    return any(component.constraint and levels[component.name] is None for component in components)


def _tree(root: Field, top: _Top, components: Sequence[Component], levels: Mapping[str, Level | None]) -> Group:
    groups = []
    for component in components:
        level = levels[component.name]
        if component.multinode:
            title = f"replica of {component.name}"
            groups.append(Group(title, (component.pods,), required=level, copies=component.replicas))
        else:
            groups.append(Group(f"component {component.name}", (component.of(component.replicas),), required=level))
    name = (root / "metadata" / "name").text() or KIND
    return Group(name, groups=tuple(groups), required=top.level)


def _advise_no_host(top: _Top, components: Sequence[Component], levels: Mapping[str, Level | None]) -> None:
    """Several nodes within one host is a contradiction, unless its pods are parts of a node each."""
    for component in components:
        own = levels[component.name]
        level, at = (own, component.constraint) if own else (top.level, top.part)
        if component.multinode and level and level.key == HOSTNAME:
            (at / "packDomain").warn(
                "dynamo/host-multinode",
                f"{level.domain!r} keeps all {component.nodes} nodes' pods of a replica of {component.name!r} on a "
                "single host",
                "use a broader level, such as the rack, for what spans several nodes",
            )


def _warn_not_enforced(root: Field, top: _Top, components: Sequence[Component]) -> None:
    if top.part or any(component.constraint for component in components):
        _pathway(root).warn(
            "dynamo/grove-pathway",
            f"with {_PATHWAY}: {str(_pathway(root).value).lower()!r} topology constraints are neither checked nor kept",
            "remove the annotation, or the constraints",
        )


def _check_unchanged(root: Field, components: Sequence[Component], before: Field) -> None:
    """Constraints cannot change once the deployment exists; the two may be in different versions."""
    if _constraint(root) != _constraint(before):
        (root / "spec" / "topologyConstraint").error("dynamo/immutable", _IMMUTABLE, _keep(before))
    then = {component.name: component.constraint for component in components_of(before / "spec")}
    for component in components:
        old = then.get(component.name)
        if old is not None and _domain(old) != _domain(component.constraint):
            component.constraint.error("dynamo/immutable", _IMMUTABLE, f"it is {_shown(_domain(old))} in the cluster")
    check_transfer_unchanged(root / "spec", before / "spec")


def _constraint(root: Field) -> tuple[Any, Any] | None:
    part = root / "spec" / "topologyConstraint"
    return ((part / _name_of(root)).text(), (part / "packDomain").text()) if part else None


def _domain(constraint: Field) -> tuple[Any] | None:
    return ((constraint / "packDomain").text(),) if constraint else None


def _shown(domain: tuple[Any] | None) -> str:
    return "not set" if domain is None else f"packDomain {domain[0]!r}"


def _keep(before: Field) -> str:
    there = _constraint(before)
    return f"it is topology {there[0]!r}, packDomain {there[1]!r} in the cluster" if there else "it is not set there"
