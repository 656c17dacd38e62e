"""The pods that a PodDisruptionBudget keeps where they are for the moment."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field, name_of, namespace_of
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
    """The names of its pods, where a file of `toposcope save` says them, as it has no labels."""

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod counts to it. An empty selector selects every pod of the namespace."""
        if namespace != self.namespace:
            return False
        for condition in self.selector:
            if not condition.holds("", labels):
                return False
        return True


def budget_of(document: Mapping[str, Any]) -> Budget:
    """A PodDisruptionBudget as it stands in the cluster; without a status it lets nothing go."""
    root = Field(document)
    pods = None
    if "pods" in document:
        pods = frozenset(_texts(root / "pods"))
    selector = root / "spec" / "selector"
    allowed = root / "status" / "disruptionsAllowed"
    return Budget(
        namespace=namespace_of(root),
        name=name_of(root),
        selector=tuple(_expressions(selector)),
        allowed=allowed.number(0),
        pods=pods,
    )


def _expressions(selector: Field) -> Iterator[Expression]:
    """The conditions of a label selector; one with an unknown operator does not count."""
    labels = selector / "matchLabels"
    for key, value in labels.texts().items():
        yield Expression(key, "In", (value,))

    expressions = selector / "matchExpressions"
    for expression in expressions.items():
        operator = _operator(expression / "operator")
        if operator is None:
            continue
        label = expression / "key"
        values = _texts(expression / "values")
        yield Expression(
            key=label.text() or "",
            operator=operator,
            values=tuple(values),
        )


def _operator(field: Field) -> Operator | None:
    text = field.text()
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
    """All PodDisruptionBudgets of a cluster and the labels of its pods, from whole objects."""

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
        name = metadata.get("name")
        labels = metadata.get("labels")
        pod = f"{namespace}/{name}"
        self.labelled(pod, labels or {})

    def labelled(self, pod: str, labels: Mapping[str, str]) -> None:
        """A pod `NAMESPACE/NAME` and its labels."""
        self._labels[pod] = labels

    def of(self, pod: str) -> Iterator[Budget]:
        """The budgets that a pod `NAMESPACE/NAME` counts to."""
        for budget in self.budgets:
            if self._covers(budget, pod):
                yield budget

    def _covers(self, budget: Budget, pod: str) -> bool:
        namespace, _, name = pod.partition("/")
        if budget.namespace != namespace:
            return False
        if budget.pods is not None:
            return name in budget.pods
        labels = self._labels.get(pod)
        if labels is None:
            return False
        return budget.covers(namespace, labels)

    def documents(self, pods: Iterable[PodView]) -> Iterator[dict[str, Any]]:
        """The budgets as `put` takes them, each with the names of the pods that count to it."""
        covered: dict[int, list[str]] = {}
        for pod in pods:
            handle = f"{pod.namespace}/{pod.name}"
            for budget in self.of(handle):
                names = covered.setdefault(id(budget), [])
                names.append(pod.name)

        for budget in self.budgets:
            yield {
                "apiVersion": "policy/v1",
                "kind": BUDGET.kind,
                "metadata": {"namespace": budget.namespace, "name": budget.name},
                "status": {"disruptionsAllowed": budget.allowed},
                "pods": covered.get(id(budget), []),
            }
