"""The objects in an AppWrapper, which its controller creates together."""

from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.making import Made, Maker, in_namespace_of
from toposcope.integrations.framework.system import ClusterFacts


def _components(root: Field, _: ClusterFacts) -> tuple[Made, ...]:
    wrapped = []
    components = root / "spec" / "components"
    for component in components.items():
        held = component / "template"
        if isinstance(held.value, dict):
            created = in_namespace_of(root, held.value)
            wrapped.append(Made(held.path, created))
    return tuple(wrapped)


MADE: Final[dict[tuple[str, str], Maker]] = {
    ("workload.codeflare.dev", "AppWrapper"): _components,
}
