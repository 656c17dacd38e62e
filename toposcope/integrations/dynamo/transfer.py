"""Dynamo's policy for the transfer of KV caches: the domain that prefill and decode workers share.

It affects routing, not placement, so it is not in the constraint tree. Rules and
messages: the CRD's CEL rules and the newest webhook.
"""

import re
from typing import Any, Final

from toposcope.api.label_values import NAME
from toposcope.integrations.dynamo.api import transfer_policy
from toposcope.integrations.dynamo.pathway import Pathway
from toposcope.integrations.dynamo.provider import TITLE, TRANSFER_RULE
from toposcope.integrations.framework.document import Field, Note
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.system import ClusterFacts

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
    spec: Field, cluster: ClusterFacts, pathway: Pathway, note: Note, *, is_newest_version: bool
) -> None:
    """Note what is wrong with the policy; v1alpha1 (not `is_newest_version`) has only labels."""
    policy = transfer_policy(spec)
    if not policy:
        return
    if not _check_schema(policy, is_newest_version=is_newest_version):
        return
    _check_fields(policy, is_newest_version=is_newest_version)

    key = policy / "labelKey"
    name = policy / "clusterTopologyName"
    topology = name.text() or ""
    if not name:
        _check_label(key, key.text() or "", cluster)
    elif not NAME.fullmatch(topology):
        note(name, "dynamo/transfer-topology", _NOT_A_NAME, cluster.missing(topology))
    elif not pathway.keeps_together:
        fix = f"let {TITLE} place the pods, or name the node label in labelKey instead"
        note(name, TRANSFER_RULE, pathway.why_not, fix)
    else:
        _check_topology(policy, name, cluster, note)


def check_transfer_unchanged(spec: Field, before: Field) -> None:
    """Note a policy that differs from the one in the cluster."""
    policy = transfer_policy(spec)
    old_policy = transfer_policy(before)
    if _values(policy) != _values(old_policy):
        text = (
            "is immutable and cannot be added, removed, or changed after creation; "
            "delete and recreate the DynamoGraphDeployment to change the KV transfer policy"
        )
        policy.error("dynamo/immutable", text, "keep the value in the cluster")


def _values(policy: Field) -> tuple[Any, ...] | None:
    if not policy:
        return None
    values = []
    for field in _FIELDS:
        value = (policy / field).value
        if field == "enforcement":
            value = value or "required"
        values.append(value)
    return tuple(values)


def _check_schema(policy: Field, *, is_newest_version: bool) -> bool:
    """Check the types and ranges of the CRD. Returns whether all are valid."""
    before = len(policy.findings)
    for name in ("clusterTopologyName", "labelKey"):
        source = policy / name
        if source.value == "":
            text = f"{source.path} in body should be at least 1 chars long"
            source.error("dynamo/transfer-source", text, "name it, or remove it")
    _check_key(policy / "labelKey", is_newest_version=is_newest_version)
    _check_domain(policy / "domain")
    _check_enforcement(policy / "enforcement", policy / "preferredWeight")
    return len(policy.findings) == before


def _check_key(key: Field, *, is_newest_version: bool) -> None:
    label = key.text()
    if label and not _KEY.fullmatch(label):
        text = f"{key.path} in body should match '^{_KEY.pattern}$'"
        key.error("dynamo/transfer-label", text, "set a label key")
    if not is_newest_version and not key:
        fix = "set the node label that carries the domain"
        key.error("dynamo/transfer-source", "Required value", fix)


def _check_domain(domain: Field) -> None:
    rule = "dynamo/transfer-domain"
    if not domain:
        domain.malformed(rule, "Required value", "set the domain, such as zone or rack")
        return
    name = domain.text() or ""
    if not _DOMAIN.fullmatch(name):
        text = f"{domain.path} in body should match '^{_DOMAIN.pattern}$'"
        domain.malformed(rule, text, "use lower-case letters, digits and '-'")


def _check_enforcement(enforcement: Field, weight: Field) -> None:
    if enforcement.value not in (None, "required", "preferred"):
        text = (
            f'Unsupported value: "{enforcement.value}": supported values: "required", "preferred"'
        )
        fix = "set one of them, or remove it: the default is required"
        enforcement.error("dynamo/transfer-enforcement", text, fix)
    if weight:
        _check_weight(weight)


def _check_weight(weight: Field) -> None:
    number = weight.value
    if isinstance(number, bool) or not isinstance(number, int | float):
        weight.wrong("a number from 0 to 1")
    elif not 0 <= number <= 1:
        bound = "greater than or equal to 0"
        if number > 1:
            bound = "less than or equal to 1"
        text = f"{weight.path} in body should be {bound}"
        weight.error("dynamo/transfer-weight", text, "set a number from 0 to 1")


def _check_fields(policy: Field, *, is_newest_version: bool) -> None:
    """Check the CEL rules of the CRD."""
    names_topology = bool(policy / "clusterTopologyName")
    names_label = bool(policy / "labelKey")
    if is_newest_version and names_topology == names_label:
        fix = "name a node label in labelKey, or a topology in clusterTopologyName, not both"
        text = "exactly one of labelKey or clusterTopologyName is required"
        policy.error("dynamo/transfer-source", text, fix)

    enforcement = (policy / "enforcement").text()
    preferred = enforcement == "preferred"
    weight = policy / "preferredWeight"
    if preferred and not weight:
        text = "preferredWeight is required when enforcement is preferred"
        policy.error("dynamo/transfer-weight", text, "add preferredWeight, such as 0.85")
    if weight and not preferred:
        text = "preferredWeight may only be set when enforcement is preferred"
        policy.error("dynamo/transfer-weight", text, "remove it, or set enforcement: preferred")


def _check_topology(policy: Field, name: Field, cluster: ClusterFacts, note: Note) -> None:
    wanted = name.text() or ""
    topology = cluster.topologies.get(wanted)
    if topology is None:
        text = "references a ClusterTopologyBinding resource that was not found"
        note(name, "dynamo/transfer-topology", text, cluster.missing(wanted))
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
    if not cluster.lacks_label(key):
        return
    text = f"no node carries the label {key!r}, so workers will not know their domain"
    fix = did_you_mean(key, cluster.node_labels)
    field.warn("dynamo/transfer-label", text, fix)
