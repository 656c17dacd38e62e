"""Checks that names of components are short enough for the names of pods.

A pod's name contains the PodCliqueSet, the component and, if a replica spans several nodes, the
role. Dynamo shortens the name of the PodCliqueSet so that all fit into the provider's limit of 45
characters, but not below 8. Source: Dynamo's webhook, main of 2026-08.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.dynamo.overrides import SUFFIXES
from toposcope.integrations.framework.document import Field

_MAX_CHARACTERS: Final = 45
_MIN_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A component, with the parts of its pods' names."""

    name: str
    field: Field
    nodes: int
    """The number of nodes of one replica."""
    has_name_field: bool
    """Whether the name is a field; False if it is a key."""

    @property
    def longest_clique(self) -> str:
        """The longest name of a clique of its roles."""
        suffix = max(SUFFIXES.values(), key=len)
        return f"{self.name.lower()}-{suffix}"

    @property
    def length(self) -> int:
        """How many characters it adds to the name of a pod."""
        length = len(self.name)
        if self.nodes > 1:
            length += len(self.longest_clique)
        return length


def check_names(deployment: str, components: Sequence[NamedPart]) -> None:
    """Note components whose names are too long."""
    lengths = {component.name: component.length for component in components}
    longest = max(lengths.values(), default=0)
    cut = max(_MIN_CHARACTERS, _MAX_CHARACTERS - longest)
    begin = min(len(deployment), cut)

    for component in components:
        length = begin + lengths[component.name]
        if length <= _MAX_CHARACTERS:
            continue
        detail = "PCS name + component name"
        if component.nodes > 1:
            clique = component.longest_clique
            detail = f'PCS name + PCSG name + longest PodClique name "{clique}"'
        text = (
            f"combined resource name length {length} exceeds the "
            f"{_MAX_CHARACTERS}-character pod-name limit ({detail}); "
            f'shorten DynamoGraphDeployment name "{deployment}" '
            f'or component name "{component.name}"'
        )
        place = component.field
        if component.has_name_field:
            place = place / "name"
        place.error("dynamo/name-length", text, f"shorten it by {length - _MAX_CHARACTERS}")
