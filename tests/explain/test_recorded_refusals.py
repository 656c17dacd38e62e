"""What Kueue 0.19.2 refused, recorded (tests/fixtures/answers), is explained by nothing that contradicts it."""

from typing import Any

import pytest
from tests.explain.explained import Explain
from tests.explain.waiting import Object, WaitingCluster, condition, owned
from tests.integrations.test_recorded_answers import KUEUE

STATES = KUEUE["states"][::4]
"""Every fourth one: a state takes seconds."""
LABELS = "labels"
EXCLUDED = "excluded:"
"""What Kueue says before the nodes that it left out, by reason."""


class RecordedCluster(WaitingCluster):
    """The nodes and pods of a state, Kueue's objects, and a workload with its refusal."""

    def __init__(self, state: Object, case: Object) -> None:
        super().__init__(*KUEUE["cluster"], *state["nodes"], *state["pods"])
        workload = case["workload"]
        queue = workload["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
        kueue_workload = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "refused", "namespace": "default"},
            "spec": {"queueName": queue},
            "status": {"conditions": [condition("QuotaReserved", "False", "Pending", case["message"])]},
        }
        self.add(workload, owned(kueue_workload, workload))

    @property
    def objects(self) -> list[Object]:
        """All of them, without the demo's nodes."""
        return self._objects


def pending(state: Object) -> list[Any]:
    """The cases that Kueue did not admit."""
    return [case for case in state["cases"] if case["answer"] == "pending"]


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES, ids=lambda state: f"seed-{state['seed']}")
def test_refusal_of_kueue_is_explained_and_not_contradicted(state: Object, explain: Explain) -> None:
    for case in pending(state):
        metadata = case["workload"]["metadata"]
        subject = f"{case['workload']['kind'].lower()}/{metadata['name']}"
        explained = explain(RecordedCluster(state, case), subject)

        assert explained.code == 1, case["message"]
        assert explained.has_answer, case["message"]
        is_blamed_on_labels = explained.answer.name == LABELS
        assert not (is_blamed_on_labels and EXCLUDED in case["message"]), case["message"]
