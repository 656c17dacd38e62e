"""Kinds and annotations of NVIDIA Dynamo, a deployment's components, and its requests.

v1alpha1 has a map of `services` and calls the topology `topologyProfile`; v1beta1 has a list of
`components` and calls it `clusterTopologyName`. No name is ambiguous, so one set of fields reads
both.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from toposcope.integrations.dynamo.provider import CONSTRAINED, GROUP
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.level_requests import (
    ANNOTATIONS,
    Annotated,
    LevelRequest,
    ReadAnnotations,
    WatchedKind,
    requests_at,
)

TOPOLOGY_NAMES: Final = ("topologyProfile", "clusterTopologyName")
"""The fields that name the topology: in v1alpha1, and in later versions."""


class WrittenComponent(NamedTuple):
    """A component in the document."""

    name: str
    field: Field
    is_service: bool
    """Whether it is a service of v1alpha1, whose name is its key."""


def components(spec: Field) -> Iterator[WrittenComponent]:
    """The components, in the order of the document."""
    for name, field in (spec / "services").properties():
        yield WrittenComponent(name, field, is_service=True)
    for field in (spec / "components").items():
        name = (field / "name").text() or field.path
        yield WrittenComponent(name, field, is_service=False)


def transfer_policy(spec: Field) -> Field:
    """The policy for the transfer of KV caches."""
    return spec / "experimental" / "kvTransferPolicy"


def requests(root: Field, read_annotations: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests of a DynamoGraphDeployment.

    Components use the topology that the deployment names.
    """
    yield from read_annotations(Annotated(root))
    spec = root / "spec"
    topology = _topology_name(spec / "topologyConstraint")
    constrained = [spec]
    for component in components(spec):
        constrained.append(component.field)
    for place in constrained:
        domain = place / "topologyConstraint" / "packDomain"
        yield from requests_at([(domain, True)], topology)

    yield from _overrides(spec)
    yield from _transfer(transfer_policy(spec))


def _topology_name(constraint: Field) -> str | None:
    """The topology by the newest field that is set."""
    for key in reversed(TOPOLOGY_NAMES):
        name = (constraint / key).text()
        if name:
            return name
    return None


def _transfer(policy: Field) -> Iterator[LevelRequest]:
    """The requests of the policy for the transfer of KV caches."""
    enforcement = (policy / "enforcement").text()
    required = enforcement != "preferred"
    label = policy / "labelKey"
    if label.text():
        # `domain` is then only a name that router and workers share; the label is read from nodes
        # directly.
        yield from requests_at([(label, required)], accepts_any_label=True)
    else:
        topology = (policy / "clusterTopologyName").text()
        yield from requests_at([(policy / "domain", required)], topology)


def _overrides(spec: Field) -> Iterator[LevelRequest]:
    """The requests in `providerOverride`s."""
    clique_set = spec / "providerOverride" / "value"
    constraints = [clique_set / "spec" / "template" / "topologyConstraint"]
    for component in (spec / "components").items():
        for place in (component, *(component / "roles").items()):
            part = place / "providerOverride" / "value"
            constraints.append(part / "topologyConstraint")

    topology = None
    for constraint in constraints:
        topology = topology or (constraint / "topologyName").text()
    for constraint in constraints:
        pack = constraint / "pack"
        levels = (
            (constraint / "packDomain", True),
            (pack / "required", True),
            (pack / "preferred", False),
        )
        yield from requests_at(levels, topology)


_OVERRIDDEN: Final = {"providerOverride": {"value": CONSTRAINED}}
_COMPONENT: Final = {"topologyConstraint": {"packDomain": str}}
_TRANSFER: Final = {"clusterTopologyName": str, "labelKey": str, "domain": str, "enforcement": str}
DEPLOYMENTS: Final = WatchedKind(
    "nvidia.com",
    "DynamoGraphDeployment",
    "dynamographdeployments",
    ("v1beta1", "v1alpha1"),
    {
        **ANNOTATIONS,
        "spec": {
            "topologyConstraint": {"packDomain": str, **dict.fromkeys(TOPOLOGY_NAMES, str)},
            "services": {"*": _COMPONENT},
            "components": [{**_COMPONENT, **_OVERRIDDEN, "roles": [_OVERRIDDEN]}],
            "providerOverride": {"value": {"spec": {"template": CONSTRAINED}}},
            "experimental": {"kvTransferPolicy": _TRANSFER},
        },
    },
    requests,
    short=("dgd",),
    translated_by=GROUP,
)
