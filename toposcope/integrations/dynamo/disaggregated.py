"""The third workload provider: a DisaggregatedSet, whose roles are LeaderWorkerSets.

Source: Dynamo's operator, main of 2026-09 (dgd_workload_provider.go,
dgd_disaggregatedset_selection.go). Worker components of several nodes become roles of one set; it
ignores topology constraints. If one of the rules below is violated, the operator creates nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.document import Field

NAME: Final = "disaggregatedset"
"""Its value in the annotation that names a provider."""
SWITCH: Final = "nvidia.com/enable-disaggregatedset"
"""The annotation that selects it if the default provider is off."""
_RULE: Final = "dynamo/disaggregated-set"
_MOST_ROLES: Final = 10
_LEAST_ROLES: Final = 2
_WORKERS: Final = ("worker", "prefill", "decode")


@dataclass(frozen=True, slots=True)
class Role:
    """A component that may become a role."""

    name: str
    field: Field
    is_service: bool
    """Whether it is a service of v1alpha1."""
    nodes: int
    replicas: int

    @property
    def is_eligible(self) -> bool:
        """Whether the operator selects it."""
        kind = self.field / ("componentType" if self.is_service else "type")
        return self.nodes > 1 and (kind.text() or "").lower() in _WORKERS

    @property
    def has_adapter(self) -> bool:
        """Whether something else scales it."""
        adapter = self.field / "scalingAdapter"
        if self.is_service:
            return (adapter / "enabled").flag()
        return bool(adapter)


def check_roles(provider: Field, components: Sequence[Role]) -> None:
    """Note why no set is created; `provider` is the annotation that selects it."""
    roles = [component for component in components if component.is_eligible]
    for role in roles:
        if role.has_adapter:
            text = (
                f'component "{role.name}" uses scalingAdapter, but DisaggregatedSet does not '
                "support scale subresource integration"
            )
            (role.field / "scalingAdapter").error(_RULE, text, "remove it")

    are_zero = {role.replicas == 0 for role in roles}
    if not roles:
        text = "no eligible multinode worker roles found"
    elif len(roles) < _LEAST_ROLES:
        text = "DisaggregatedSet requires at least two eligible multinode worker roles"
    elif len(roles) > _MOST_ROLES:
        text = f"DisaggregatedSet supports at most {_MOST_ROLES} roles"
    elif len(are_zero) > 1:
        text = (
            "DisaggregatedSet requires replicas to be zero for all selected roles "
            "or positive for all selected roles"
        )
    else:
        return
    fix = "change the components, or remove the annotation"
    provider.error(_RULE, text, fix)
