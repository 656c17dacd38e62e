"""Grove's topology cases TAS1 to TAS23: the expectations of its end-to-end suite that concern levels.

Those in which the cluster or the levels differ from the standard ones, or change, are in `grove_changes`.
"""

from typing import Final

from tests.controller.cases import grove_changes
from tests.controller.cases.grove_objects import (
    FOUR,
    ONLY_GROVE,
    RACK,
    ZONE,
    cluster,
    pcs,
    shape,
    standard,
    workload_case,
)
from tests.controller.cases.model import Case, Invalid, levels

_ROUTER: Final = {"worker": "", "router": ""}
_DISAGGREGATED: Final = {"decoder": ("rack", ("dworker", "dleader")), "prefill": ("rack", ("pworker", "pleader"))}
_CLIQUES: Final = {"dworker": "", "dleader": "", "pworker": "", "pleader": "", "router": ""}
_HOST: Final = {"topologyName": "grove-topology", "packDomain": "host"}
_OLD: Final = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
_NEEDS_RACK: Final = {"topologyName": "grove-topology", "pack": {"required": "rack"}}

CASES: Final = (
    workload_case("TAS1 infrastructure: binding and KAI Topology", None, beyond=""),
    workload_case(
        "TAS2 cliques with constraints of their own",
        pcs("tas-indep-clq", cliques={"worker-rack": "rack", "worker-block": "block"}),
        required_by={"block": 1, "rack": 1},
    ),
    workload_case(
        "TAS3 constraint of the set only",
        pcs("tas-sl-pcs-only", "rack", {"workers": ("", ("worker",))}, _ROUTER),
        required_by={"rack": 1},
    ),
    workload_case(
        "TAS4 constraint of the scaling group only",
        pcs("tas-sl-pcsg-only", "", {"workers": ("rack", ("worker",))}, _ROUTER),
        required_by={"rack": 1},
    ),
    workload_case(
        "TAS5 constraint of the clique only: host",
        pcs("tas-host-level", cliques={"worker": "host"}),
        required_by={"host": 1},
    ),
    workload_case(
        "TAS6 a clique alone under a set in one zone", pcs("tas-standalone-pclq", "zone"), required_by={"zone": 1}
    ),
    workload_case("TAS7 no constraint", pcs("tas-no-constraint", "", {"workers": ("", ("worker",))})),
    workload_case(
        "TAS8 the full hierarchy",
        pcs(
            "tas-hierarchy",
            "block",
            {"inference-group": ("rack", ("prefill", "decode"))},
            {"prefill": "host", "decode": "host"},
        ),
        nodes=8,
        required_by={"block": 1, "host": 1, "rack": 1},
    ),
    workload_case(
        "TAS9 set and clique",
        pcs("tas-pcs-pclq", "block", cliques={"worker": "host"}),
        required_by={"block": 1, "host": 1},
    ),
    workload_case(
        "TAS10 scaling group that scales",
        pcs("tas-pcsg-scale", "block", {"inference-group": ("rack", ("worker",))}),
        required_by={"block": 1, "rack": 1},
    ),
    workload_case(
        "TAS11 scaling group and clique without a set",
        pcs("tas-pcsg-pclq", "", {"workers": ("rack", ("worker",))}, {"worker": "host"}),
        required_by={"host": 1, "rack": 1},
    ),
    workload_case(
        "TAS12 ten replicas",
        pcs("tas-large-scale", "block", {"workers": ("", ("worker",))}, {"worker": "host"}),
        required_by={"block": 1, "host": 1},
    ),
    # Ten pods fit into no rack. A level that is there is available all the same.
    workload_case("TAS13 presence is not capacity", pcs("tas-insuffic", "rack"), required_by={"rack": 1}),
    workload_case("TAS14 two replicas of a set", pcs("tas-multirep", "rack"), required_by={"rack": 1}),
    workload_case(
        "TAS15 disaggregated inference",
        pcs("tas-pcs-multi-pcsg", "block", _DISAGGREGATED, _CLIQUES),
        required_by={"block": 1, "rack": 1},
    ),
    workload_case(
        "TAS16 disaggregated inference, twice, three levels",
        pcs("tas-pcs-multi-pcsg", "block", _DISAGGREGATED, {**_CLIQUES, "pworker": "host"}),
        required_by={"block": 1, "host": 1, "rack": 1},
    ),
    workload_case(
        "TAS21 parts inherit the topology of the set",
        pcs("tas21-pcs-optional-topology-name", "zone", cliques={"worker": "host"}),
        required_by={"host": 1, "zone": 1},
        beyond="the entries of schedulerTopologyBindings that Grove's webhook refuses",
    ),
    Case(
        "TAS22 shapes that Grove's schema refuses ask for nothing",
        cluster(8),
        {"grove-topology": {"levels": levels(*FOUR), "publish": ONLY_GROVE}},
        {"grove-topology": standard(8, preferred_by={"host": 1})},
        (
            shape("tas22-legacy-pcs", {"topologyConstraint": _HOST}, _OLD),
            shape(
                "tas22-missing-pack",
                {"topologyConstraint": {"topologyName": "grove-topology"}},
                "topologyConstraint must specify pack or deprecated packDomain",
            ),
            shape(
                "tas22-empty-pack",
                {"topologyConstraint": {"topologyName": "grove-topology", "pack": {}}},
                "pack must specify at least one of required or preferred",
            ),
            shape(
                "tas22-ambiguous-pack",
                {"topologyConstraint": {**_HOST, "pack": {"required": "host"}}},
                "must not set both pack.required and deprecated packDomain",
            ),
            shape(
                "tas22-legacy-pclq",
                {"topologyConstraint": _NEEDS_RACK, "clique": {"topologyConstraint": {"packDomain": "host"}}},
                _OLD,
            ),
            shape(
                "tas22-legacy-pcsg",
                {
                    "topologyConstraint": _NEEDS_RACK,
                    "podCliqueScalingGroups": [
                        {"name": "workers", "cliqueNames": ["worker"], "topologyConstraint": {"packDomain": "host"}}
                    ],
                },
                _OLD,
            ),
            pcs("tas22-valid-preferred-only", "~host"),
        ),
    ),
    workload_case(
        "TAS23 preferred levels",
        pcs(
            "tas-preferred-pack", "block ~rack", {"workers": ("~host", ("worker",))}, {"worker": "", "router": "~host"}
        ),
        required_by={"block": 1},
        preferred_by={"host": 1, "rack": 1},
    ),
    *grove_changes.CASES,
)

INVALID: Final = (
    Invalid(
        "TAS21 a domain twice",
        (("zone", ZONE), ("zone", RACK)),
        "a domain appears twice",
        "spec.levels[1].domain: 'zone' is listed twice; each domain names one level",
    ),
)
