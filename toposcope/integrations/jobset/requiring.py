"""What exclusive Jobs of a JobSet require: a domain for each alone.

The annotation stands on the pods, and so does the label of the Job: JobSet writes both. Every pod
of another Job with such a label is kept out, in all namespaces (0.12: pkg/webhooks/pod_webhook.go).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.requiring import (
    ApartFrom,
    RequiredPart,
    Requiring,
    annotated,
)
from toposcope.integrations.jobset.api import (
    EXCLUSIVE,
    JOB_INDEX,
    JOB_KEY,
    JOB_NAME,
    PRIORITY,
)

_APART: Final = ApartFrom(JOB_KEY, in_all_namespaces=True, among=PRIORITY)


class _JobSet(Requiring):
    def of_pods(self, pods: Sequence[ViewedPod]) -> Iterator[RequiredPart]:
        in_jobs = []
        for pod in pods:
            if JOB_KEY in pod.labels:
                in_jobs.append(pod)
        for level, members in annotated(in_jobs, EXCLUSIVE, _job):
            yield RequiredPart(
                level=level,
                pods=members,
                name=_name(members[0]),
                by_value=True,
                apart=_APART,
            )


def _job(pod: ViewedPod) -> str:
    return pod.labels[JOB_KEY]


def _name(pod: ViewedPod) -> str:
    """The ReplicatedJob and the number of its Job; empty: the pod has no such labels."""
    job = pod.labels.get(JOB_NAME, "")
    index = pod.labels.get(JOB_INDEX, "")
    return f"{job}-{index}".strip("-")


REQUIRING: Final = _JobSet()
