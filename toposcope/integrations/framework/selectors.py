"""Label selectors of pods (`metav1.LabelSelector`): all of their requirements must hold."""

from collections.abc import Mapping
from dataclasses import dataclass

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.node_terms import term_of


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """What a selector asks of the labels of an object."""

    requirements: tuple[Expression, ...]
    """Empty: it selects everything."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.holds("", labels) for requirement in self.requirements)


def label_selector(selector: Field) -> LabelSelector | None:
    """A label selector; None where there is none, which selects nothing."""
    if not selector:
        return None
    requirements = []
    for key, value in (selector / "matchLabels").texts().items():
        requirements.append(Expression(key, "In", (value,)))
    requirements += term_of(selector)
    return LabelSelector(tuple(requirements))
