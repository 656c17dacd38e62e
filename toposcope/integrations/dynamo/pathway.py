"""Who runs a deployment's pods: Grove, which keeps them together, or something that does not.

Dynamo decides at creation, by `nvidia.com/enable-grove`, and writes the answer into an annotation
of its own. Rules and messages: the webhook, main of 2026-08; older ones, through 1.4, know
`nvidia.com/enable-grove` alone.
"""

from dataclasses import dataclass
from typing import Final

from toposcope.integrations.dynamo.api import GROVE_PATHWAY
from toposcope.integrations.framework.document import Field

PROVIDER: Final = "nvidia.com/workload-provider"
_PROVIDERS: Final = ("component", "grove")
_IMMUTABLE: Final = "field is immutable"


@dataclass(frozen=True, slots=True)
class Pathway:
    """The pathway of one deployment."""

    field: Field
    """The annotation that decides."""
    provider: str
    why_not: str = ""
    """Why it is not Grove's, in Dynamo's words; empty where it is."""

    @property
    def grove(self) -> bool:
        """Whether Grove keeps the pods together."""
        return not self.why_not


def pathway_of(root: Field, before: Field | None) -> Pathway:
    """The pathway; notes what is wrong with the annotations.

    In a change, what Dynamo wrote stays.
    """
    annotations = root / "metadata" / "annotations"
    field, written = annotations / PROVIDER, None
    if before is not None:
        written = (before / "metadata" / "annotations" / PROVIDER).value
        if field and written and field.value != written:
            field.error("dynamo/provider", _IMMUTABLE, f"it is {written!r} in the cluster")
        elif field and not written:
            field.error(
                "dynamo/provider", "may only be materialized by the Dynamo operator", "remove it"
            )
    provider = field.text() or written
    if provider == "grove":
        return Pathway(field, "grove")
    if provider == "component":
        return Pathway(
            field,
            provider,
            f'requires the Grove pathway, but workload provider "{provider}" is selected',
        )
    if provider:
        known = ", ".join(f'"{name}"' for name in _PROVIDERS)
        field.error(
            "dynamo/provider",
            f'Unsupported value: "{provider}": supported values: {known}',
            "remove it",
        )
        why = f'requires the Grove pathway, but annotation "{PROVIDER}" has unsupported value "{provider}"'
        return Pathway(field, str(provider), why)
    switch = annotations / GROVE_PATHWAY
    if str(switch.value).lower() != "false":
        return Pathway(switch, "grove")
    why = f'requires the Grove pathway; remove or unset annotation "{GROVE_PATHWAY}" (currently "{switch.value}")'
    return Pathway(switch, "component", why)
