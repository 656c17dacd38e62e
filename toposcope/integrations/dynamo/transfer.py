"""Dynamo's policy for the transfer of KV caches.

The topology domain that prefill and decode workers should share. It decides about routes, not about
placement, so nothing of it enters the constraint tree. Rules and messages: the CRD's CEL rules and
the newest webhook.
"""

import re
from typing import Any, Final

from toposcope.api.label_values import NAME
from toposcope.integrations.dynamo.api import transfer_policy
from toposcope.integrations.dynamo.pathway import Pathway
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.grove.constraint import Note

_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_KEY: Final = re.compile(
    r"(([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?"
    r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)",
    re.ASCII,
)
_NOT_A_NAME: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{NAME.pattern}')"
)
_FIELDS: Final = ("clusterTopologyName", "labelKey", "domain", "enforcement", "preferredWeight")


def check_transfer(
    spec: Field, cluster: ClusterFacts, pathway: Pathway, note: Note, *, newest: bool
) -> None:
    """Note what is wrong with the policy; v1alpha1 (not `newest`) knows labels only."""
    policy = transfer_policy(spec)
    if not policy:
        return
    name, key = policy / "clusterTopologyName", policy / "labelKey"
    if not _check_schema(policy, newest=newest):
        return
    _check_fields(policy, newest=newest)
    if not name:
        _check_label(key, key.text() or "", cluster)
    elif not NAME.fullmatch(name.text() or ""):
        note(name, "dynamo/transfer-topology", _NOT_A_NAME, cluster.missing(name.text() or ""))
    elif not pathway.grove:
        fix = "leave the pods to Grove, or name the node label in labelKey instead"
        note(name, "dynamo/transfer-grove", pathway.why_not, fix)
    else:
        _check_topology(policy, name, cluster, note)


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


def _check_schema(policy: Field, *, newest: bool) -> bool:
    """The types and ranges of the CRD; whether all are right."""
    before = len(policy.findings)
    for name in ("clusterTopologyName", "labelKey"):
        if (policy / name).value == "":
            text = f"{(policy / name).path} in body should be at least 1 chars long"
            (policy / name).error("dynamo/transfer-source", text, "name it, or remove it")
    _check_key(policy / "labelKey", newest=newest)
    _check_domain(policy / "domain")
    _check_enforcement(policy / "enforcement", policy / "preferredWeight")
    return len(policy.findings) == before


def _check_key(key: Field, *, newest: bool) -> None:
    if key.text() and not _KEY.fullmatch(key.text() or ""):
        text = f"{key.path} in body should match '^{_KEY.pattern}$'"
        key.error("dynamo/transfer-label", text, "write a label key")
    if not newest and not key:
        fix = "name the node label that carries the domain"
        key.error("dynamo/transfer-source", "Required value", fix)


def _check_domain(domain: Field) -> None:
    if not domain:
        domain.malformed("dynamo/transfer-domain", "Required value", "name the domain: zone, rack")
    elif not _DOMAIN.fullmatch(domain.text() or ""):
        text = f"{domain.path} in body should match '^{_DOMAIN.pattern}$'"
        domain.malformed("dynamo/transfer-domain", text, "write lower-case letters, digits and '-'")


def _check_enforcement(enforcement: Field, weight: Field) -> None:
    if enforcement.value not in (None, "required", "preferred"):
        text = (
            f'Unsupported value: "{enforcement.value}": supported values: "required", "preferred"'
        )
        fix = "write one of them, or leave it out: required"
        enforcement.error("dynamo/transfer-enforcement", text, fix)
    if not weight:
        return
    if isinstance(weight.value, bool) or not isinstance(weight.value, int | float):
        weight.wrong("a number from 0 to 1")
    elif not 0 <= weight.value <= 1:
        bound = "less than or equal to 1" if weight.value > 1 else "greater than or equal to 0"
        text = f"{weight.path} in body should be {bound}"
        weight.error("dynamo/transfer-weight", text, "write a number from 0 to 1")


def _check_fields(policy: Field, *, newest: bool) -> None:
    """The CEL rules of the CRD."""
    if newest and bool(policy / "clusterTopologyName") == bool(policy / "labelKey"):
        fix = "name a node label in labelKey, or a topology in clusterTopologyName, not both"
        text = "exactly one of labelKey or clusterTopologyName is required"
        policy.error("dynamo/transfer-source", text, fix)
    preferred = (policy / "enforcement").text() == "preferred"
    weight = policy / "preferredWeight"
    if preferred and not weight:
        text = "preferredWeight is required when enforcement is preferred"
        policy.error("dynamo/transfer-weight", text, "add preferredWeight: 0.85, say")
    if weight and not preferred:
        text = "preferredWeight may only be set when enforcement is preferred"
        policy.error("dynamo/transfer-weight", text, "remove it, or write enforcement: preferred")


def _check_topology(policy: Field, name: Field, cluster: ClusterFacts, note: Note) -> None:
    topology = cluster.topologies.get(name.text() or "")
    if topology is None:
        text = "references a ClusterTopologyBinding resource that was not found"
        note(name, "dynamo/transfer-topology", text, cluster.missing(name.text() or ""))
        return
    domain = policy / "domain"
    level = topology.by_domain(domain.text() or "")
    if level:
        _check_label(domain, level.key, cluster)
    elif domain:
        available = " ".join(sorted(topology.domains))
        text = (
            f'does not exist in ClusterTopologyBinding "{topology.name}"; '
            f"available domains: [{available}]"
        )
        fix = did_you_mean(str(domain.value), topology.domains)
        note(domain, "dynamo/transfer-domain", text, fix)


def _check_label(field: Field, key: str, cluster: ClusterFacts) -> None:
    if cluster.lacks_label(key):
        text = f"no node carries the label {key!r}, so workers will not know their domain"
        field.warn("dynamo/transfer-label", text, did_you_mean(key, cluster.node_labels))
