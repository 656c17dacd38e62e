"""Grove's PodCliqueSet: constraints on the set, its scaling groups and its cliques.

`packDomain` is all that alpha.4-9 know; alpha.10 refuses it on new objects and keeps it on old ones. `topologyName`
(from alpha.9 on) is inherited from the scaling group and from the set.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from toposcope.integrations.framework.level_requests import LevelRequest, Meta, Source, need
from toposcope.integrations.kai import level_requests as kai
from toposcope.kube.reflector import Raw


class _Pack(msgspec.Struct, frozen=True, gc=False):
    required: str | None = None
    preferred: str | None = None


class _Constraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_name: str | None = None
    pack_domain: str | None = None
    pack: _Pack | None = None


class _Clique(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    topology_constraint: _Constraint | None = None


class _ScalingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    clique_names: list[str] | None = None
    topology_constraint: _Constraint | None = None


class _Template(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_constraint: _Constraint | None = None
    cliques: list[_Clique] | None = None
    pod_clique_scaling_groups: list[_ScalingGroup] | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False):
    template: _Template | None = None


class _Set(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    spec: _Spec | None = None


_SET: Final = msgspec.json.Decoder(_Set)


def needs(raw: Raw) -> Iterator[LevelRequest]:
    """What a PodCliqueSet asks for."""
    found = _SET.decode(raw)
    yield from kai.annotated(found.metadata.annotations or {})
    template = (found.spec or _Spec()).template or _Template()
    top = template.topology_constraint or _Constraint()
    yield from _packed(top, top.topology_name)
    inherited: dict[str, str | None] = {}
    for group in template.pod_clique_scaling_groups or ():
        constraint = group.topology_constraint or _Constraint()
        name = constraint.topology_name or top.topology_name
        inherited |= dict.fromkeys(group.clique_names or (), name)
        yield from _packed(constraint, name)
    for clique in template.cliques or ():
        constraint = clique.topology_constraint or _Constraint()
        yield from _packed(constraint, constraint.topology_name or inherited.get(clique.name, top.topology_name))


def _packed(constraint: _Constraint, topology: str | None) -> Iterator[LevelRequest]:
    pack = constraint.pack or _Pack()
    for domain, required in ((constraint.pack_domain, True), (pack.required, True), (pack.preferred, False)):
        if domain:
            yield need(domain, required=required, topology=topology)


SOURCE: Final = Source("PodCliqueSet", "grove.io", ("v1alpha1",), "podcliquesets", needs)
