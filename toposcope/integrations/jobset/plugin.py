"""JobSet: Jobs, each of which may have a domain of its own."""

from typing import Final

from toposcope.integrations.framework.plugin import GangMaker, GangMark, Plugin
from toposcope.integrations.jobset.api import EXCLUSIVE, JOB_KEY, JOBSETS, SET_OF

PLUGIN: Final = Plugin(
    package=__package__,
    name="jobset",
    title="JobSet",
    watched=(JOBSETS,),
    gang_marks=(GangMark("JobSet", (SET_OF,), GangMaker.CONTROLLER),),
    exclusive_pod_labels=(JOB_KEY,),
    pod_metadata=("jobset.sigs.k8s.io/", EXCLUSIVE),
)
