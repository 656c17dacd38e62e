"""Dynamo's DynamoGraphDeployment: the deployment, its parts, and the transfer of KV caches between them.

v1beta1 renames `topologyProfile` to `clusterTopologyName` and makes a list (`components`) of the map `services`; no
name means two things, so one set of fields reads both.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from toposcope.integrations.framework.level_requests import LevelRequest, Meta, Source, need
from toposcope.integrations.kai import level_requests as kai
from toposcope.kube.reflector import Raw


class _Constraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    cluster_topology_name: str | None = None
    topology_profile: str | None = None
    pack_domain: str | None = None


class _Part(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_constraint: _Constraint | None = None


class _Transfer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    cluster_topology_name: str | None = None
    label_key: str | None = None
    domain: str | None = None
    enforcement: str | None = None


class _Experimental(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    kv_transfer_policy: _Transfer | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_constraint: _Constraint | None = None
    services: dict[str, _Part | None] | None = None
    components: list[_Part | None] | None = None
    experimental: _Experimental | None = None


class _Deployment(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    spec: _Spec | None = None


_DEPLOYMENT: Final = msgspec.json.Decoder(_Deployment)


def needs(raw: Raw) -> Iterator[LevelRequest]:
    """What a DynamoGraphDeployment asks for; parts use the topology that the deployment names."""
    deployment = _DEPLOYMENT.decode(raw)
    yield from kai.annotated(deployment.metadata.annotations or {})
    spec = deployment.spec or _Spec()
    top = spec.topology_constraint or _Constraint()
    topology = top.cluster_topology_name or top.topology_profile
    parts = [*(spec.services or {}).values(), *(spec.components or ())]
    for constraint in (top, *(part.topology_constraint for part in parts if part)):
        if constraint and constraint.pack_domain:
            yield need(constraint.pack_domain, required=True, topology=topology)
    transfer = (spec.experimental or _Experimental()).kv_transfer_policy or _Transfer()
    required = transfer.enforcement != "preferred"
    if transfer.label_key:
        # Its `domain` is then only a word between router and workers; the label is read from nodes directly.
        yield need(transfer.label_key, required=required, any_label=True)
    elif transfer.domain:
        yield need(transfer.domain, required=required, topology=transfer.cluster_topology_name)


SOURCE: Final = Source("DynamoGraphDeployment", "nvidia.com", ("v1beta1", "v1alpha1"), "dynamographdeployments", needs)
