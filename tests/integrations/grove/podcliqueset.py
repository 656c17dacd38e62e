"""Places in tests/documents/grove/podcliqueset.yaml, and what KAI makes of the set."""

from tests.support.documents import text

ROUTER = "spec.template.cliques[0]"
LEADER = "spec.template.cliques[1]"
WORKER = "spec.template.cliques[2]"
GROUP = "spec.template.podCliqueScalingGroups[0]"
SET_CONSTRAINT = "spec.template.topologyConstraint"
GROUP_CONSTRAINT = f"{GROUP}.topologyConstraint"
REQUIRED = "spec.template.topologyConstraint.pack.required"
PLACED_ALONE = (
    "KAI places replicas of a scaling group beyond its minAvailable separately, so not always in the zone of the others"
)
TOPOLOGY_NAME = "spec.template.topologyConstraint.topologyName"
ROUTER_SCHEDULER = f"{ROUTER}.spec.podSpec.schedulerName"
LEADER_SCHEDULER = f"{LEADER}.spec.podSpec.schedulerName"
STARTUP = "spec.template.cliqueStartupType"
ROUTER_CONSTRAINT = f"{ROUTER}.topologyConstraint"
ONE_SCHEDULER = "the schedulerName for all pods have to be the same"
WHOLE = text("""
    Grove podcliqueset/llm -n ml on cluster, a gang
      2 x llm: required zone
        2 x scaling group decode: required rack
          clique leader: 1 leader (nvidia.com/gpu=8)
          clique worker: 3 worker (nvidia.com/gpu=8)
        clique router: 1 router (nvidia.com/gpu=8)
      at once: 2 x llm: required zone
                 scaling group decode: required rack
                   clique leader: 1 leader (nvidia.com/gpu=8)
                   clique worker: 3 worker (nvidia.com/gpu=8)
                 clique router: 1 router (nvidia.com/gpu=8)
      at once: 2 x scaling group decode: required rack
                 clique leader: 1 leader (nvidia.com/gpu=8)
                 clique worker: 3 worker (nvidia.com/gpu=8)
""")
GROUP_WITHOUT_LEVEL = text("""
    Grove podcliqueset/llm -n ml on cluster, a gang
      2 x llm: required zone
        2 x scaling group decode
          clique leader: 1 leader (nvidia.com/gpu=8)
          clique worker: 3 worker (nvidia.com/gpu=8)
        clique router: 1 router (nvidia.com/gpu=8)
      at once: 2 x llm: required zone
                 scaling group decode
                   clique leader: 1 leader (nvidia.com/gpu=8)
                   clique worker: 3 worker (nvidia.com/gpu=8)
                 clique router: 1 router (nvidia.com/gpu=8)
      at once: 2 x scaling group decode: required zone
                 clique leader: 1 leader (nvidia.com/gpu=8)
                 clique worker: 3 worker (nvidia.com/gpu=8)
""")
