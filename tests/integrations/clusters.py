"""What is known of the clusters that documents of these tests are written for."""

from dataclasses import replace

from toposcope.api.levels import Level
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, ExclusivePod, ReadTopologies, SchedulerProfiles

ZONE = Level("zone", "topology.kubernetes.io/zone")
RACK = Level("rack", "example.com/rack")
HOST = Level("host", "kubernetes.io/hostname")
TOPOLOGY = TopologyLevels("cluster", (ZONE, RACK, HOST))

NOTHING_KNOWN = ClusterFacts()
CLUSTER = ClusterFacts(topologies={"cluster": TOPOLOGY}, node_labels=frozenset({ZONE.key, RACK.key, HOST.key}))
TWO_TOPOLOGIES = replace(CLUSTER, topologies={"cluster": TOPOLOGY, "other": replace(TOPOLOGY, name="other")})
NODES_WITH_ZONES_ONLY = ClusterFacts(
    topologies={"cluster": TopologyLevels("cluster", (ZONE, RACK))}, node_labels=frozenset({ZONE.key})
)
NODES_WITH_POOLS_ONLY = replace(CLUSTER, node_labels=frozenset({"example.com/pool"}))
SHELF_IS_RACK = ClusterFacts(topologies={"cluster": replace(TOPOLOGY, aliases=(("shelf", RACK.key),))})


def with_profiles(*enabled: str, default: str, topology_aware: bool = True) -> ClusterFacts:
    """A cluster whose Grove operator is configured with these schedulers."""
    return replace(CLUSTER, profiles=SchedulerProfiles(enabled, default, topology_aware))


GROVE_WITH_KAI = with_profiles("kai-scheduler", "default-scheduler", default="default-scheduler")
GROVE_WITH_KAI_BY_DEFAULT = with_profiles("kai-scheduler", "default-scheduler", default="kai-scheduler")
GROVE_WITH_VOLCANO = with_profiles("volcano", "default-scheduler", default="default-scheduler")
GROVE_NOT_TOPOLOGY_AWARE = with_profiles(
    "kai-scheduler", "default-scheduler", default="kai-scheduler", topology_aware=False
)

# Of several topologies, Kueue's flavors decide which one counts.
TWO_TOPOLOGIES_WITH_RACKS = ClusterFacts(
    topologies={
        "a": replace(TOPOLOGY, name="a"),
        "b": TopologyLevels("b", (ZONE, HOST)),
        "c": TopologyLevels("c", (RACK, HOST), source="Topology"),
    }
)
ZONES_AND_RACKS_APART = ClusterFacts(
    topologies={"a": TopologyLevels("a", (ZONE, HOST)), "b": TopologyLevels("b", (RACK, HOST))}
)


def rack_held_by(pod_label: str, namespace: str) -> ClusterFacts:
    """A cluster in which a pod with this label keeps other groups out of rack r1."""
    pod = ExclusivePod(namespace, {RACK.key: "r1"})
    return replace(CLUSTER, exclusive_pods={pod_label: (pod,)})


RACK_HELD_BY_GROUP = rack_held_by("leaderworkerset.sigs.k8s.io/group-key", "ml")
RACK_HELD_BY_GROUP_OF_OTHERS = rack_held_by("leaderworkerset.sigs.k8s.io/group-key", "other")
RACK_HELD_BY_JOB_OF_OTHERS = rack_held_by("jobset.sigs.k8s.io/job-key", "other")
NODES_LABELLED_FOR_JOBS = replace(
    CLUSTER, node_labels=CLUSTER.node_labels | {"alpha.jobset.sigs.k8s.io/namespaced-job"}
)

# OSMO's pools, and the scheduler of its backend.
SPINE = Level("spine", "example.com/spine")
TRAIN_POOL = TopologyLevels("train-pool", (ZONE, SPINE, RACK), source="OSMO pool")
POOL = ClusterFacts(pools={"train-pool": TRAIN_POOL})
SECOND_POOL_WITH_CELLS = ClusterFacts(
    pools={"train-pool": TRAIN_POOL, "second": TopologyLevels("second", (Level("cell", ZONE.key),), source="OSMO pool")}
)
TWO_POOLS = ClusterFacts(
    pools={"train-pool": TRAIN_POOL, "third": TopologyLevels("third", (ZONE,), source="OSMO pool")}
)
NO_POOL = ClusterFacts(topologies={"cluster": TopologyLevels("cluster", (ZONE, RACK))})
BACKEND_WITH_KAI = replace(CLUSTER, schedulers={"default": "kai"})
BACKEND_WITH_KAI_IN_CAPITALS = replace(CLUSTER, schedulers={"default": "KAI"})
BACKEND_WITH_DEFAULT_SCHEDULER = replace(CLUSTER, schedulers={"default": "default"})

# Run:ai's topologies of node pools.
PROVIDER_BLOCK = Level("block", "cloud.provider.com/topology-block")
PROVIDER_RACK = Level("rack", "cloud.provider.com/topology-rack")
POOL_A = TopologyLevels("pool-a", (PROVIDER_BLOCK, PROVIDER_RACK, HOST))
POOL_B = TopologyLevels("pool-b", (PROVIDER_RACK, HOST))
NODE_POOL = ClusterFacts(
    topologies={"pool-a": POOL_A}, node_labels=frozenset({PROVIDER_BLOCK.key, PROVIDER_RACK.key, HOST.key})
)
TWO_NODE_POOLS = replace(NODE_POOL, topologies={"pool-a": POOL_A, "pool-b": POOL_B})

WITHOUT_GANGS = replace(CLUSTER, unserved=frozenset({"podgroups.scheduling.k8s.io"}))


def with_hyper_nodes(*trees: TopologyLevels) -> ClusterFacts:
    """A cluster with Volcano's HyperNodes of these topologies, which call levels by the number of their tier."""
    return replace(CLUSTER, read={"volcano": ReadTopologies({tree.name: tree for tree in trees})})


TREE = replace(
    TOPOLOGY,
    source="HyperNode",
    aliases=(
        ("1", RACK.key),
        ("2", ZONE.key),
        ("tierName rack", RACK.key),
        ("tierName zone", ZONE.key),
        (f"tierName {RACK.key}", RACK.key),
    ),
)
HYPER_NODES = with_hyper_nodes(TREE)
HYPER_NODES_OF_TWO_TOPOLOGIES = with_hyper_nodes(
    TREE, replace(TREE, name="other", aliases=(("1", RACK.key), ("2", "")))
)
HYPER_NODES_OF_OTHERS = with_hyper_nodes(replace(TOPOLOGY, levels=(), source="HyperNode", aliases=(("1", ""),)))
NO_HYPER_NODES = with_hyper_nodes()
