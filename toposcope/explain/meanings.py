"""What messages mean, whoever sent them, and which steps say more about the same."""

from toposcope.integrations.framework import features
from toposcope.integrations.registry import waiting


def meaning(text: str) -> str:
    """The meaning of a message, whoever sent it; empty: unknown."""
    general = features.meaning_of(text)
    if general:
        return general

    for system in waiting():
        meaning_to_system = system.meaning(text)
        if meaning_to_system:
            return meaning_to_system
    return ""


def explained_by(text: str) -> frozenset[str]:
    """The steps that say the same as a message with more detail."""
    steps = features.steps_that_explain(text)
    if steps:
        return steps
    for system in waiting():
        steps = system.steps(text)
        if steps:
            return steps
    return frozenset()
