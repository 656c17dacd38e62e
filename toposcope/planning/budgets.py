"""Which pods a PodDisruptionBudget keeps where they are for the moment."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import OPERATORS, Expression
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
        return namespace == self.namespace and all(
            condition.holds("", labels) for condition in self.selector
        )


def budget_of(document: Mapping[str, Any]) -> Budget:
    """A PodDisruptionBudget as it stands in the cluster; without a status it lets nothing go."""
    root = Field(document)
    metadata, selector = root / "metadata", root / "spec" / "selector"
    expressions = [
        Expression(key, "In", (value,)) for key, value in (selector / "matchLabels").texts().items()
    ]
    for expression in (selector / "matchExpressions").items():
        operator = next(
            (known for known in OPERATORS if known == (expression / "operator").text()), None
        )
        if operator is not None:
            values = tuple(
                text
                for value in (expression / "values").items()
                if (text := value.text()) is not None
            )
            expressions.append(Expression((expression / "key").text() or "", operator, values))
    return Budget(
        (metadata / "namespace").text() or "default",
        (metadata / "name").text() or "",
        tuple(expressions),
        (root / "status" / "disruptionsAllowed").number(0),
        frozenset(filter(None, (name.text() for name in (root / "pods").items())))
        if "pods" in document
        else None,
    )


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
        metadata = document.get("metadata") or {}
        if document.get("kind") == BUDGET.kind:
            self.budgets.append(budget_of(document))
        else:
            self.labelled(
                f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}",
                metadata.get("labels") or {},
            )

    def labelled(self, pod: str, labels: Mapping[str, str]) -> None:
        """A pod `NAMESPACE/NAME` and its labels."""
        self._labels[pod] = labels

    def of(self, pod: str) -> Iterable[Budget]:
        """The budgets that a pod `NAMESPACE/NAME` counts to."""
        namespace, _, name = pod.partition("/")
        labels = self._labels.get(pod)
        return [
            budget
            for budget in self.budgets
            if (
                labels is not None and budget.covers(namespace, labels)
                if budget.pods is None
                else name in budget.pods
            )
            and budget.namespace == namespace
        ]

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
