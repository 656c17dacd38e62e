"""Which pods a PodDisruptionBudget keeps where they are for the moment."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import OPERATORS, Expression, Operator
from toposcope.kube.discovery import Kind
from toposcope.snapshot.model import PodView

BUDGET: Final = Kind(
    "policy", "PodDisruptionBudget", "poddisruptionbudgets", ("v1",), short=("pdb",)
)


@dataclass(frozen=True, slots=True)
class Budget:
    """One PodDisruptionBudget."""

    namespace: str
    name: str
    selector: tuple[Expression, ...]
    allowed: int
    """How many of its pods may be evicted now."""
    pods: frozenset[str] | None = None
    """The names of its pods, where a file of `toposcope save` says them; labels are not in there."""

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod counts to it. An empty selector selects every pod of the namespace."""
        if namespace != self.namespace:
            return False
        return all(condition.holds("", labels) for condition in self.selector)


def budget_of(document: Mapping[str, Any]) -> Budget:
    """A PodDisruptionBudget as it stands in the cluster; without a status it lets nothing go."""
    root = Field(document)
    metadata = root / "metadata"
    return Budget(
        namespace=(metadata / "namespace").text() or "default",
        name=(metadata / "name").text() or "",
        selector=tuple(_expressions(root / "spec" / "selector")),
        allowed=(root / "status" / "disruptionsAllowed").number(0),
        pods=frozenset(_texts(root / "pods")) if "pods" in document else None,
    )


def _expressions(selector: Field) -> Iterator[Expression]:
    """Of a label selector; one with an operator that is not known counts for nothing."""
    for key, value in (selector / "matchLabels").texts().items():
        yield Expression(key, "In", (value,))
    for expression in (selector / "matchExpressions").items():
        operator = _operator((expression / "operator").text())
        if operator is not None:
            key = (expression / "key").text() or ""
            yield Expression(key, operator, tuple(_texts(expression / "values")))


def _operator(text: str | None) -> Operator | None:
    for operator in OPERATORS:
        if operator == text:
            return operator
    return None


def _texts(values: Field) -> Iterator[str]:
    """The strings of a list that are not empty."""
    for value in values.items():
        text = value.text()
        if text is not None:
            yield text


class Budgets:
    """All PodDisruptionBudgets of a cluster and the labels of its pods, for whole objects that are read from files."""

    def __init__(self) -> None:
        self.budgets: list[Budget] = []
        self._labels: dict[str, Mapping[str, str]] = {}

    def wants(self, group: str, kind: str) -> bool:
        """Budgets, and pods for their labels."""
        return (group, kind) in (BUDGET.key, ("", "Pod"))

    def put(self, document: Mapping[str, Any]) -> None:
        """A budget or a pod."""
        if document.get("kind") == BUDGET.kind:
            self.budgets.append(budget_of(document))
            return
        metadata = document.get("metadata") or {}
        namespace = metadata.get("namespace") or "default"
        self.labelled(f"{namespace}/{metadata.get('name')}", metadata.get("labels") or {})

    def labelled(self, pod: str, labels: Mapping[str, str]) -> None:
        """A pod `NAMESPACE/NAME` and its labels."""
        self._labels[pod] = labels

    def of(self, pod: str) -> Iterable[Budget]:
        """The budgets that a pod `NAMESPACE/NAME` counts to."""
        return [budget for budget in self.budgets if self._covers(budget, pod)]

    def _covers(self, budget: Budget, pod: str) -> bool:
        namespace, _, name = pod.partition("/")
        if budget.namespace != namespace:
            return False
        if budget.pods is not None:
            return name in budget.pods
        labels = self._labels.get(pod)
        return labels is not None and budget.covers(namespace, labels)

    def documents(self, pods: Iterable[PodView]) -> Iterator[dict[str, Any]]:
        """The budgets as `put` takes them, each with the names of those of these pods that count to it."""
        covered: dict[int, list[str]] = {}
        for pod in pods:
            for budget in self.of(f"{pod.namespace}/{pod.name}"):
                covered.setdefault(id(budget), []).append(pod.name)
        for budget in self.budgets:
            yield {
                "apiVersion": "policy/v1",
                "kind": BUDGET.kind,
                "metadata": {"namespace": budget.namespace, "name": budget.name},
                "status": {"disruptionsAllowed": budget.allowed},
                "pods": covered.get(id(budget), []),
            }
