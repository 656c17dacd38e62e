"""The pathway of a deployment: what creates its pods, and whether that keeps them together.

Dynamo decides at creation, by the annotation `SWITCH` and then that of `disaggregated`, and records
the decision in its own annotation. Rules and messages: the webhook, main of 2026-08, and the
operator, main of 2026-09; older ones, through 1.4, know `SWITCH` alone.
"""

from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.dynamo import disaggregated
from toposcope.integrations.dynamo.provider import NAME, SWITCH, TITLE
from toposcope.integrations.framework.document import Field

PROVIDER: Final = "nvidia.com/workload-provider"
_COMPONENT: Final = "component"
_PROVIDERS: Final = (_COMPONENT, NAME, disaggregated.NAME)
_IMMUTABLE: Final = "field is immutable"


@dataclass(frozen=True, slots=True)
class Pathway:
    """The pathway of one deployment."""

    field: Field
    """The annotation that decides."""
    provider: str
    why_not: str = ""
    """Why it does not keep pods together, in Dynamo's words; empty if it does."""

    @property
    def keeps_together(self) -> bool:
        """Whether the provider keeps the pods together."""
        return not self.why_not


def pathway_of(root: Field, before: Field | None) -> Pathway:
    """The pathway.

    Notes what is wrong with the annotations, and changes of those that Dynamo wrote.
    """
    annotations = root / "metadata" / "annotations"
    field = annotations / PROVIDER
    written = None
    if before is not None:
        annotations_before = before / "metadata" / "annotations"
        written = (annotations_before / PROVIDER).value
        _check_written(field, written)
    provider = field.text() or written
    if provider:
        return _by_provider(field, provider)

    switch = annotations / SWITCH
    value = str(switch.value)
    if value.lower() != "false":
        return Pathway(switch, NAME)
    why = (
        f"requires the {TITLE} pathway; remove or unset annotation "
        f'"{SWITCH}" (currently "{switch.value}")'
    )
    disaggregates = str((annotations / disaggregated.SWITCH).value)
    if disaggregates.lower() == "true":
        return Pathway(switch, disaggregated.NAME, why)
    return Pathway(switch, _COMPONENT, why)


def _check_written(field: Field, written: Any) -> None:
    """Note a change of the annotation that Dynamo's operator wrote."""
    if field and written and field.value != written:
        field.error("dynamo/provider", _IMMUTABLE, f"it is {written!r} in the cluster")
    elif field and not written:
        text = "may only be materialized by the Dynamo operator"
        field.error("dynamo/provider", text, "remove it")


def _by_provider(field: Field, provider: Any) -> Pathway:
    """The pathway of the workload provider that an annotation names."""
    if provider == NAME:
        return Pathway(field, NAME)
    if provider in _PROVIDERS:
        why = f'requires the {TITLE} pathway, but workload provider "{provider}" is selected'
        return Pathway(field, provider, why)
    providers = ", ".join(f'"{name}"' for name in _PROVIDERS)
    text = f'Unsupported value: "{provider}": supported values: {providers}'
    field.error("dynamo/provider", text, "remove it")
    why = (
        f"requires the {TITLE} pathway, "
        f'but annotation "{PROVIDER}" has unsupported value "{provider}"'
    )
    return Pathway(field, str(provider), why)
