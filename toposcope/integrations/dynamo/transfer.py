"""Dynamo's policy for the transfer of KV caches: the topology domain that prefill and decode workers should share.

It decides about routes, not about placement, so nothing of it enters the constraint tree. Rules and messages: the CRD's
CEL rules and the newest webhook.
"""

from typing import Any, Final

from toposcope.integrations.dynamo.api import GROVE_PATHWAY, transfer_policy
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.system import ClusterFacts

_FIELDS: Final = ("clusterTopologyName", "labelKey", "domain", "enforcement", "preferredWeight")


def check_transfer(spec: Field, cluster: ClusterFacts, pathway: Field, *, newest: bool) -> None:
    """Note what is wrong with the policy.

    `pathway` is the annotation that can turn Grove off; v1alpha1 (not `newest`) knows labels only.
    """
    policy = transfer_policy(spec)
    if not policy:
        return
    name, key = policy / "clusterTopologyName", policy / "labelKey"
    _check_fields(policy, name, key, newest=newest)
    if name.text():
        if str(pathway.value).lower() == "false":
            name.error(
                "dynamo/transfer-grove",
                f'requires the Grove pathway; remove or unset annotation "{GROVE_PATHWAY}" '
                f'(currently "{pathway.value}")',
                "remove the annotation, or name the node label in labelKey instead",
            )
        else:
            _check_topology(policy, name, cluster)
    elif key.text():
        _check_label(key, key.text() or "", cluster)


def check_transfer_unchanged(spec: Field, before: Field) -> None:
    """Note a policy that differs from the one in the cluster."""
    if _values(transfer_policy(spec)) != _values(transfer_policy(before)):
        transfer_policy(spec).error(
            "dynamo/immutable",
            "is immutable and cannot be added, removed, or changed after creation; "
            "delete and recreate the DynamoGraphDeployment to change the KV transfer policy",
            "leave it as it is in the cluster",
        )


def _values(policy: Field) -> tuple[Any, ...] | None:
    if not policy:
        return None
    enforcement = (policy / "enforcement").value or "required"
    return (*((policy / field).value for field in _FIELDS if field != "enforcement"), enforcement)


def _check_fields(policy: Field, name: Field, key: Field, *, newest: bool) -> None:
    if newest and bool(name.text()) == bool(key.text()):
        policy.error(
            "dynamo/transfer-source",
            "exactly one of labelKey or clusterTopologyName is required",
            "name a node label in labelKey, or a topology in clusterTopologyName, not both",
        )
    if not newest and key.value is None:
        key.error("dynamo/transfer-source", "Required value", "name the node label that carries the domain")
    if (policy / "domain").value is None:
        (policy / "domain").error("dynamo/transfer-domain", "Required value", "name the domain: zone, rack")
    preferred = (policy / "enforcement").text() == "preferred"
    weight = policy / "preferredWeight"
    if preferred and not weight:
        text = "preferredWeight is required when enforcement is preferred"
        policy.error("dynamo/transfer-weight", text, "add preferredWeight: 0.85, say")
    if weight and not preferred:
        text = "preferredWeight may only be set when enforcement is preferred"
        policy.error("dynamo/transfer-weight", text, "remove it, or write enforcement: preferred")


def _check_topology(policy: Field, name: Field, cluster: ClusterFacts) -> None:
    topology = cluster.topologies.get(name.text() or "")
    if topology is None:
        text = "references a ClusterTopologyBinding resource that was not found"
        name.error("dynamo/transfer-topology", text, cluster.missing(name.text() or ""))
        return
    domain = policy / "domain"
    level = topology.by_domain(domain.text() or "")
    if level:
        _check_label(domain, level.key, cluster)
    elif domain:
        available = " ".join(sorted(topology.domains))
        text = f'does not exist in ClusterTopologyBinding "{topology.name}"; available domains: [{available}]'
        domain.error("dynamo/transfer-domain", text, did_you_mean(str(domain.value), topology.domains))


def _check_label(field: Field, key: str, cluster: ClusterFacts) -> None:
    if cluster.lacks_label(key):
        text = f"no node carries the label {key!r}, so workers will not know their domain"
        field.warn("dynamo/transfer-label", text, did_you_mean(key, cluster.node_labels))
