"""Which requests of pods Kueue counts against quota: `resources` of its manager's Configuration.

Rules: Kueue 0.19 (pkg/workload/workload.go: dropExcludedResources, applyResourceTransformations;
pkg/scheduler/flavorassigner: quotaCheckStrategy). Room on nodes still depends on the pods' real
requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.api import CONFIGURATION
from toposcope.kube.pod_resources import CPU, QuantityError, amount

_THOUSANDTHS: Final = 1000
_MINUS: Final = "-"


@dataclass(frozen=True, slots=True)
class Transformation:
    """The outputs that are counted for each unit of one resource."""

    resource: str
    outputs: tuple[tuple[str, Fraction], ...]
    is_replaced: bool = False
    """Whether the resource itself is no longer counted."""
    multiplied_by: str = ""
    """Another resource of the pod, whose amount multiplies the outputs; empty if none."""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """Which requests of a pod count against quota."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    ignores_undeclared: bool = False
    """`quotaCheckStrategy: IgnoreUndeclared`: what no quota covers is not checked."""
    is_known: bool = False
    """Whether the Configuration was read; False for Kueue's defaults."""

    def counted(self, requests: Sequence[tuple[str, int]]) -> dict[str, int]:
        """The counted requests of a pod, in the units of `amount`."""
        kept = {}
        for resource, requested in requests:
            if not resource.startswith(self.excluded_prefixes):
                kept[resource] = requested
        if not self.transformations:
            return kept

        counted = dict(kept)
        outputs: dict[str, Fraction] = {}
        for rule in self.transformations:
            if rule.resource not in kept:
                continue
            if rule.is_replaced:
                del counted[rule.resource]
            units = _units(rule.resource, kept[rule.resource])
            if rule.multiplied_by in kept:
                units *= _units(rule.multiplied_by, kept[rule.multiplied_by])
            for output, each in rule.outputs:
                outputs[output] = outputs.get(output, Fraction(0)) + units * each
        for output, units in outputs.items():
            counted[output] = counted.get(output, 0) + _amount_of(output, max(units, Fraction(0)))
        return counted


DEFAULT_RULES: Final = ResourceRules()
"""The rules of a Configuration without `resources`."""


def resource_rules(cluster: ClusterFacts) -> ResourceRules:
    """The rules of the manager's Configuration, or Kueue's defaults if it was not read.

    An earlier release may leave its own behind; if two differ, neither is used.
    """
    read = []
    for document in cluster.objects.get(CONFIGURATION, ()):
        rules = _read(Field(document) / "resources")
        if rules not in read:
            read.append(rules)
    return read[0] if len(read) == 1 else DEFAULT_RULES


def _read(resources: Field) -> ResourceRules:
    prefixes = []
    for prefix in (resources / "excludeResourcePrefixes").items():
        text = prefix.text()
        if text:
            prefixes.append(text)
    transformations = []
    for written in (resources / "transformations").items():
        transformation = _transformation(written)
        if transformation is not None:
            transformations.append(transformation)
    strategy = (resources / "quotaCheckStrategy").text()
    return ResourceRules(
        excluded_prefixes=tuple(prefixes),
        transformations=tuple(transformations),
        ignores_undeclared=strategy == "IgnoreUndeclared",
        is_known=True,
    )


def _transformation(written: Field) -> Transformation | None:
    """One transformation; None if it is malformed, because Kueue does not start with it."""
    resource = (written / "input").text()
    if resource is None:
        return None
    outputs = []
    for output, quantity in (written / "outputs").properties():
        each = _quantity(quantity)
        if each is None:
            return None
        outputs.append((output, each))
    return Transformation(
        resource=resource,
        outputs=tuple(outputs),
        is_replaced=(written / "strategy").text() == "Replace",
        multiplied_by=(written / "multiplyBy").text() or "",
    )


def _quantity(written: Field) -> Fraction | None:
    """A quantity, which may be negative, to a thousandth; None if malformed."""
    value = written.value
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    text = str(value).strip()
    is_negative = text.startswith(_MINUS)
    try:
        thousandths = amount(CPU, text.removeprefix(_MINUS))
    except QuantityError:
        return None
    units = Fraction(thousandths, _THOUSANDTHS)
    return -units if is_negative else units


def _units(resource: str, requested: int) -> Fraction:
    """An amount in whole units: cores, bytes, pieces."""
    return Fraction(requested, _THOUSANDTHS if resource == CPU else 1)


def _amount_of(resource: str, units: Fraction) -> int:
    """The same in the units of `amount`, rounded up."""
    return ceil(units * _THOUSANDTHS if resource == CPU else units)
