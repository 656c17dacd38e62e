"""Component groups of a deployment: components that scale together.

`experimental.componentGroups` (v1beta1): the provider creates a scaling group for each, with its
own replicas; a replica has all pods of the group's components. Source: Dynamo (main of 2026-09),
api/v1beta1 and internal/dynamo/componentgroups.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import did_you_mean

KIND: Final = "component group"
_RULE: Final = "dynamo/component-group"


@dataclass(frozen=True, slots=True)
class ComponentGroup:
    """One group."""

    name: str
    replicas: int
    members: tuple[str, ...]
    """Names of components."""


def component_groups(spec: Field, component_names: Collection[str]) -> tuple[ComponentGroup, ...]:
    """The groups, each component in at most one. Notes what is wrong with them.

    `component_names` are the names of the components.
    """
    groups = []
    grouped_names: set[str] = set()
    names: set[str] = set()
    for field in (spec / "experimental" / "componentGroups").items():
        name = (field / "name").text() or field.path
        if name in names:
            (field / "name").error(_RULE, f'Duplicate value: "{name}"', "rename one")
        names.add(name)
        members = tuple(_members(field, component_names, grouped_names))
        replicas = (field / "replicas").number(1, least=1)
        groups.append(ComponentGroup(name, replicas, members))
    return tuple(groups)


def _members(
    group: Field, component_names: Collection[str], grouped_names: set[str]
) -> Iterator[str]:
    components = list((group / "components").items())
    if not components:
        (group / "components").error(_RULE, "Required value", "name its components")
    for component in components:
        field = component / "name"
        name = field.text() or ""
        if name not in component_names:
            field.error(_RULE, f'Not found: "{name}"', did_you_mean(name, component_names))
        elif name in grouped_names:
            text = f"component {name} is in more than one group"
            field.error(_RULE, text, "keep it in one of them")
        else:
            grouped_names.add(name)
            yield name
