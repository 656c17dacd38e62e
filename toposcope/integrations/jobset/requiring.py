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
        in_jobs = [pod for pod in pods if JOB_KEY in pod.labels]
        for level, members in annotated(in_jobs, EXCLUSIVE, _job):
            labels = members[0].labels
            parts = (labels.get(JOB_NAME), labels.get(JOB_INDEX))
            name = "-".join(part for part in parts if part)
            yield RequiredPart(level, members, name, by_value=True, apart=_APART)


def _job(pod: ViewedPod) -> str:
    return pod.labels[JOB_KEY]


REQUIRING: Final = _JobSet()
