"""Dynamo's policy for the transfer of KV caches: the topology domain that prefill and decode workers should share.

It decides about routes, not about places, so nothing of it enters the constraint tree. Rules and messages: the CRD's
CEL rules and the newest webhook.
"""

from typing import Any, Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import near
from toposcope.integrations.framework.system import ClusterFacts

_FIELDS: Final = ("clusterTopologyName", "labelKey", "domain", "enforcement", "preferredWeight")


def check_transfer(spec: Field, known: ClusterFacts, pathway: Field, *, newest: bool) -> None:
    """Note what is wrong with the policy.

    `pathway` is the annotation that can turn Grove off; v1alpha1 (not `newest`) knows labels only.
    """
    policy = _policy(spec)
    if not policy:
        return
    name, key = policy / "clusterTopologyName", policy / "labelKey"
    _check_fields(policy, name, key, newest=newest)
    if name.text():
        if str(pathway.value).lower() == "false":
            name.error(
                "dynamo/transfer-grove",
                f'requires the Grove pathway; remove or unset annotation "nvidia.com/enable-grove" '
                f'(currently "{pathway.value}")',
                "remove the annotation, or name the node label in labelKey instead",
            )
        else:
            _check_topology(policy, name, known)
    elif key.text():
        _check_label(key, key.text() or "", known)


def check_transfer_unchanged(spec: Field, before: Field) -> None:
    """Note a policy that differs from the one in the cluster."""
    if _values(_policy(spec)) != _values(_policy(before)):
        _policy(spec).error(
            "dynamo/immutable",
            "is immutable and cannot be added, removed, or changed after creation; "
            "delete and recreate the DynamoGraphDeployment to change the KV transfer policy",
            "leave it as it is in the cluster",
        )


def _policy(spec: Field) -> Field:
    return spec / "experimental" / "kvTransferPolicy"


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
        policy.error(
            "dynamo/transfer-weight",
            "preferredWeight is required when enforcement is preferred",
            "add preferredWeight: 0.85, say",
        )
    if weight and not preferred:
        policy.error(
            "dynamo/transfer-weight",
            "preferredWeight may only be set when enforcement is preferred",
            "remove it, or write enforcement: preferred",
        )


def _check_topology(policy: Field, name: Field, known: ClusterFacts) -> None:
    topology = name.text() or ""
    ladder = known.ladders.get(topology)
    if ladder is None:
        text = "references a ClusterTopologyBinding resource that was not found"
        name.error("dynamo/transfer-topology", text, near(topology, known.ladders))
        return
    domain = policy / "domain"
    level = next((level for level in ladder.levels if level.domain == domain.text()), None)
    if level:
        _check_label(domain, level.key, known)
    elif domain:
        available = " ".join(sorted(ladder.domains))
        text = f'does not exist in ClusterTopologyBinding "{topology}"; available domains: [{available}]'
        domain.error("dynamo/transfer-domain", text, near(str(domain.value), ladder.domains))


def _check_label(at: Field, key: str, known: ClusterFacts) -> None:
    if known.labels and key not in known.labels:
        at.warn(
            "dynamo/transfer-label",
            f"no node carries the label {key!r}, so workers will not know their domain",
            near(key, known.labels),
        )
