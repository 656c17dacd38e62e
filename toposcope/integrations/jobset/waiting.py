"""JobSet: which pods belong to which of its Jobs. Labels: JobSet 0.9."""

from collections.abc import Mapping
from typing import Final

from toposcope.integrations.framework.constraints import JOB, Group
from toposcope.integrations.framework.waiting import CopyName, Waiting
from toposcope.integrations.jobset.api import JOB_KEY
from toposcope.kube.discovery import Kind

_JOB_NAME: Final = "jobset.sigs.k8s.io/replicatedjob-name"


class _JobSet(Waiting):
    subjects = (Kind("jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2",)),)
    level_rules = (
        "jobset/label-exists",
        "jobset/nodes-labelled",
    )

    def copy_namer(self, system: str, group: Group) -> CopyName | None:
        del system  # whoever places them
        name = group.own_name
        if group.part != JOB:
            return None

        def of_job(labels: Mapping[str, str]) -> str | None:
            if labels.get(_JOB_NAME) != name:
                return None
            return labels.get(JOB_KEY)

        return of_job


WAITING: Final = _JobSet()
