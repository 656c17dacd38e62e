"""Which nodes a pod may use: node selectors, required node affinity, taints and tolerations.

Rules: Kubernetes' scheduler (NodeAffinity and TaintToleration); `Gt` and `Lt` compare integers, a
missing label satisfies only `NotIn` and `DoesNotExist`, terms are alternatives, and all expressions
of a term must hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Literal, NamedTuple

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

OPERATORS: Final[tuple[Operator, ...]] = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
NODE_NAME: Final = "metadata.name"
"""The only field that `matchFields` knows."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that repels pods.

    `effect` is NoSchedule or NoExecute (PreferNoSchedule is left out).
    """

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        text = self.key
        if self.value:
            text += f"={self.value}"
        return f"{text}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on a label, or on the node's name."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    is_field: bool = False
    """Whether `key` is a field of the node, which is `NODE_NAME`."""

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it holds for a node."""
        value = name if self.is_field else labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _compares(self.operator, value, self.values)


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        number = int(value or "")
        right = int(values[0])
    except (ValueError, IndexError):
        return False
    if operator == "Gt":
        return number > right
    return number < right


@dataclass(frozen=True, slots=True)
class Toleration:
    """One toleration. An empty key tolerates every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Whether a pod with this toleration may use a node with `taint`."""
        if self.effect and self.effect != taint.effect:
            return False
        exists = self.operator == "Exists"
        if not self.key:
            return exists
        if self.key != taint.key:
            return False
        return exists or self.value == taint.value


class ExclusionKind(IntEnum):
    """Why pods cannot use a node, in the order in which reasons are reported."""

    SELECTOR = 1
    AFFINITY = 2
    TAINT = 3
    OBSTACLE = 4
    """It accepts no new pods: it is not Ready, cordoned, or under pressure."""
    LEVEL = 5
    """It lacks the label of a level."""
    VOLUME = 6
    """A volume of the pods cannot be used there."""
    KEY = 7
    """It lacks the label that pod affinity or a spread constraint uses."""
    NEIGHBOURS = 8
    """Anti-affinity to pods there, or affinity to pods elsewhere."""


class Exclusion(NamedTuple):
    """Why pods cannot use a node."""

    kind: ExclusionKind
    detail: str = ""
    """The `KEY=VALUE` or label key that it lacks, or the taint, obstacle, claim, or rule."""


Terms = tuple[tuple[Expression, ...], ...]
"""Alternatives: any one of them has to match."""


@dataclass(frozen=True, slots=True)
class VolumePlace:
    """The nodes that can use the volume of a claim."""

    claim: str
    terms: Terms

    def allows(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node can use it."""
        return any(_matches(term, name, labels) for term in self.terms)


Barred = tuple[tuple[Exclusion, frozenset[str]], ...]
"""Nodes by name that running pods keep a pod from, by the reason."""


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes that a pod may use.

    Filters are compared by value, so that equal ones are evaluated once for a node.
    """

    selector: tuple[tuple[str, str], ...] = ()
    """`nodeSelector`: all of these labels."""
    terms: Terms = ()
    """`requiredDuringSchedulingIgnoredDuringExecution`: any one of these; empty for every node."""
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[VolumePlace, ...] = ()
    """All of these; volumes that every node can use are left out."""
    keys: tuple[str, ...] = ()
    """Labels that a node must have, with any value."""
    barred: Barred = ()

    @property
    def if_emptied(self) -> "NodeFilter":
        """The filter on an empty cluster."""
        return replace(self, barred=()) if self.barred else self

    def tolerates(self, taint: Taint) -> bool:
        """Whether the pods may use a node in spite of `taint`."""
        return any(toleration.covers(taint) for toleration in self.tolerations)

    def rejection(
        self, name: str, labels: Mapping[str, str], taints: Sequence[Taint]
    ) -> Exclusion | None:
        """Why the pods cannot use the node; None if they can."""
        for key, value in self.selector:
            if labels.get(key) != value:
                return Exclusion(ExclusionKind.SELECTOR, f"{key}={value}")
        if self.terms and not any(_matches(term, name, labels) for term in self.terms):
            return Exclusion(ExclusionKind.AFFINITY)
        for taint in taints:
            if not self.tolerates(taint):
                return Exclusion(ExclusionKind.TAINT, str(taint))
        for volume in self.volumes:
            if not volume.allows(name, labels):
                return Exclusion(ExclusionKind.VOLUME, volume.claim)
        return self._rejection_by_rules(name, labels)

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether node selector and affinity allow the node, whatever its taints."""
        for key, value in self.selector:
            if labels.get(key) != value:
                return False
        return not self.terms or any(_matches(term, name, labels) for term in self.terms)

    def _rejection_by_rules(self, name: str, labels: Mapping[str, str]) -> Exclusion | None:
        for key in self.keys:
            if key not in labels:
                return Exclusion(ExclusionKind.KEY, key)
        for exclusion, names in self.barred:
            if name in names:
                return exclusion
        return None


def _matches(term: Sequence[Expression], name: str, labels: Mapping[str, str]) -> bool:
    """Whether a term matches a node; an empty one matches nothing (corev1.NodeSelectorTerm)."""
    for rule in term:
        if not rule.holds(name, labels):
            return False
    return len(term) > 0


ANY_NODE: Final = NodeFilter()
"""For a pod that does not select nodes. Taints still apply."""
