"""The lengths of names.

A pod is called after the PodCliqueSet, the component and, of several nodes, the role. Dynamo cuts
the name of the PodCliqueSet down to what its components leave of Grove's 45 characters, but not
below 8. Source: Dynamo's webhook, main of 2026-08.
"""

from collections.abc import Sequence
from typing import Final

from toposcope.integrations.dynamo.overrides import SUFFIXES
from toposcope.integrations.framework.document import Field

_LIMIT: Final = 45
_SHORTEST: Final = 8


def check_names(deployment: str, components: Sequence[tuple[str, Field, int]]) -> None:
    """Note components whose names are too long.

    Each with its field and the number of nodes of a replica.
    """
    lengths = {name: _length(name, nodes) for name, _, nodes in components}
    cut = max(_SHORTEST, _LIMIT - max(lengths.values(), default=0))
    for name, field, nodes in components:
        length = min(len(deployment), cut) + lengths[name]
        if length > _LIMIT:
            detail = "PCS name + component name"
            if nodes > 1:
                detail = f'PCS name + PCSG name + longest PodClique name "{_clique(name)}"'
            text = (
                f"combined resource name length {length} exceeds the {_LIMIT}-character pod-name "
                f"limit ({detail}); "
                f'shorten DynamoGraphDeployment name "{deployment}" or component name "{name}"'
            )
            place = field / "name" if field.path.startswith("spec.components") else field
            place.error("dynamo/name-length", text, f"shorten it by {length - _LIMIT}")


def _length(name: str, nodes: int) -> int:
    return len(name) + (len(_clique(name)) if nodes > 1 else 0)


def _clique(name: str) -> str:
    return max((f"{name.lower()}-{suffix}" for suffix in SUFFIXES.values()), key=len)
