"""Places of KAI's annotations in documents, and what KAI says of them."""

from tests.support.documents import text

REQUIRED = "metadata.annotations[kai.scheduler/topology-required-placement]"
PREFERRED = "metadata.annotations[kai.scheduler/topology-preferred-placement]"
MIN_MEMBER = "metadata.annotations[kai.scheduler/batch-min-member]"
REPLICATED_JOB_REQUIRED = (
    "spec.replicatedJobs[0].template.metadata.annotations[kai.scheduler/topology-required-placement]"
)
REPLICATED_JOB_TOPOLOGY = "spec.replicatedJobs[0].template.metadata.annotations[kai.scheduler/topology]"
JOB_IS_NO_GANG = (
    "KAI 0.17 does not treat a Job as a gang: it starts the 4 pods one by one, the first chooses the domain, and "
    "pods without room there wait"
)
SET_MIN_MEMBER = 'set kai.scheduler/batch-min-member: "4" on the Job, and recreate it'
NO_LEVEL = "KAI 0.17 never schedules pods with a topology and neither a required nor a preferred level"
JOB_IN_ONE_RACK = text("""
    KAI job/train -n ml on cluster, a gang
      train: required rack; 4 pods (nvidia.com/gpu=8)
""")
