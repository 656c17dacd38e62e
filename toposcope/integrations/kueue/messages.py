"""What messages of Kueue 0.19 mean, and what to do.

Sources: pkg/cache/scheduler/tas_flavor_snapshot.go, pkg/scheduler/flavorassigner, pkg/scheduler/scheduler.go,
pkg/controller/tas/node_controller.go and the webhooks of jobs.
"""

from typing import Final

from toposcope.integrations.framework.features import Meanings

_FREE: Final = "see room for what lacks"
MEANINGS: Final[Meanings] = {
    r'there is no Topology "([^"]*)" for TAS flavor "([^"]*)"': (
        "ResourceFlavor {1} names Topology {0}, which does not exist; the ClusterQueue admits nothing until it does"
    ),
    r"no requested topology level(?: for slices| for additional slice layer)?: ([^\s,;]+)": (
        "the flavor's topology has no level {0}; kubectl get topologies.kueue.x-k8s.io -o yaml shows those it has"
    ),
    r'Flavor "?([^" ]+)"? does not contain the requested level': (
        "the topology of ResourceFlavor {0} lacks the requested level; ask for a level that it has"
    ),
    r'Flavor "([^"]+)" does not support TopologyAwareScheduling': (
        "ResourceFlavor {0} has no topology, so it takes no pods that ask for a level; set its spec.topologyName"
    ),
    r'Flavor "([^"]+)" supports only TopologyAwareScheduling': (
        "ResourceFlavor {0} has a topology, so it takes only pods that ask for one: annotate the pod template with "
        "kueue.x-k8s.io/podset-unconstrained-topology or a level"
    ),
    r'Flavor "([^"]+)" information missing in TAS cache': (
        "Kueue does not know the nodes of ResourceFlavor {0} yet; if this stays, its Topology is missing"
    ),
    r"no topology domains at level: ([^\s,;]+)": (
        "no Ready, schedulable node carries all labels of the topology down to {0}"
    ),
    r"podset slice topology (\S+) is above the podset topology ([^\s,;]+)": (
        "slices must be kept within a level no broader than {1}, and {0} is; name a narrower one"
    ),
    r"additional slice layer topology (\S+) must be at a lower level than ([^\s,;]+)": (
        "each slice layer must name a narrower level than the one before it, and {0} is not narrower than {1}"
    ),
    r"additional slice layer size (\d+) must evenly divide parent layer size (\d+)": (
        "slices of {0} pods do not fill a slice of {1}; choose a size that divides it"
    ),
    r'topology "([^"]*)" doesn\'t allow to fit any of (\d+) (pod|slice)': (
        f"no domain of topology {{0}} has room for any of the {{1}} {{2}}s; {_FREE}"
    ),
    r'topology "([^"]*)" allows to fit only (\d+) out of (\d+) (pod|slice)': (
        f"in topology {{0}} there is room for {{1}} of the {{2}} {{3}}s where they have to be; {_FREE}"
    ),
    r'topology "([^"]*)" doesn\'t allow to fit(?=;|$)': (
        f"no domain of topology {{0}} has room for the slices at all of their levels; {_FREE}"
    ),
    r"(\d+)/(\d+) slice\(s\) fit on level ([^\s;]*[^\s;.])": (
        "level {2}: room for {0} slices in the best domain, {1} needed"
    ),
    r"\bnodeSelector: (\d+)": "nodes that do not match the pods' nodeSelector: {0}",
    r"\baffinity: (\d+)": "nodes that do not match the pods' node affinity: {0}",
    r"\btopologyDomain: (\d+)": "nodes outside the domain in which a failed node has to be replaced: {0}",
    r"\bschedulerLibraryNoFit: (\d+)": "nodes that kube-scheduler's own filters refuse: {0}",
    r'\btaint "([^"]+)": (\d+)': "nodes with taint {0}, which neither the pods nor the ResourceFlavor tolerate: {1}",
    r'\bresource "([^"]+)": (\d+)': "nodes with too little free {0} for one pod: {1}",
    r"insufficient unused quota for (\S+) in flavor ([^,\s]+), (\S+) more needed": (
        "the queue's quota of {0} in flavor {1} is used up ({2} more needed), however much is free on the nodes"
    ),
    r"insufficient quota for (\S+) in flavor ([^,\s]+), .* > maximum capacity \(([^)]+)\)": (
        "it asks for more {0} than the queue can ever have of flavor {1} ({2}); ask for less, or raise nominalQuota "
        "or the borrowing limit"
    ),
    r"resource (\S+) unavailable in ClusterQueue": (
        "the ClusterQueue covers no {0}; add it to coveredResources of a resource group, with a quota"
    ),
    r"untolerated taint (\{[^}]*\}|\S+) in flavor ([^,;\s]+)": (
        "the pods do not tolerate taint {0} of ResourceFlavor {1}; add the toleration to them or to the flavor"
    ),
    r"flavor ([^,;\s]+) doesn't match node affinity": (
        "the pods' nodeSelector or affinity contradicts spec.nodeLabels of ResourceFlavor {0}"
    ),
    r"flavor ([^,;\s]+) not found": "the ClusterQueue names ResourceFlavor {0}, which does not exist; create it",
    r"ClusterQueue (\S+) is inactive": "ClusterQueue {0} admits nothing; its condition Active says why",
    r"ClusterQueue (\S+) not found": "the LocalQueue leads to ClusterQueue {0}, which does not exist",
    r"Pending the preemption of (\d+) workload": (
        "Kueue ends {0} other workloads to make room, and waits until they are gone"
    ),
    r"no replacement for unhealthy node\(s\): (\S+)": (
        "node {0} failed, and no other node of the domain that the pods have to share had room; Kueue queues it anew"
    ),
    r"cannot find replacement assignment for unhealthy node: (\S+)": (
        "node {0} failed, and no other node of the domain that the pods have to share has room"
    ),
    r"multiple TAS assigned node failures, including: (.+)": (
        "Kueue replaces one failed node at a time; several failed ({0}), so it ended the workload and queues it anew"
    ),
    r"existing topologyAssignment is invalid, as it contains the stale domain (\S+)": (
        "a node failed, and domain {0} of its assignment is gone as well, so Kueue cannot replace the node; set the "
        "Workload's spec.active to false, and to true again"
    ),
    r"must not contain more than one topology annotation": (
        "Kueue's webhook refuses it: of required, preferred and unconstrained topology keep one annotation"
    ),
    r"podset-slice[^:]*: Invalid value: (\d+): must not be greater than pod set count (\d+)": (
        "Kueue's webhook refuses it: a slice of {0} pods is larger than the pod set of {1}"
    ),
}
"""Every pattern that is in a message adds its meaning, in this order."""
