"""Slinky's annotation on the nodes of topologies with `spec.publish.slinky: Auto`.

slurm-operator and slurm-bridge copy it to the Slurm node that runs there, as the `topology` that slurmctld's
topology.yaml knows: docs/usage/topology.md of slurm-operator. The names are those of `toposcope export --format slurm`.
"""

from collections.abc import Sequence

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import SLINKY_ANNOTATED, Condition
from toposcope.api.label_keys import SLINKY, SLINKY_KEPT
from toposcope.controller.node_keys import Change
from toposcope.controller.publishers.dry_run import DRY_RUN
from toposcope.integrations.slurm.topology import node_units
from toposcope.kube.errors import ApiError
from toposcope.topology.levels import Level
from toposcope.topology.table import Table
from toposcope.topology.text import plural


def changes(
    topology: Topology, levels: Sequence[Level] | None, selected: Table, nodes: Table, topologies: Sequence[Topology]
) -> list[Change]:
    """What is still to be written for one topology; `levels`: None where nothing is known of them, so that all stays.

    `nodes` are all of the cluster, `topologies` all ClusterTopologies, the oldest first.
    """
    asked = topology.mode("slinky") != "Never"
    if asked and not levels:
        return []
    units = node_units(topology.name, levels, selected) if asked and levels else {}
    asking = [candidate for candidate in topologies if candidate.mode("slinky") != "Never"]
    found = []
    for node in nodes:
        before, value = node.label(SLINKY_KEPT), units.get(node.name)
        decides = next((candidate for candidate in asking if candidate.selects(node)), topology)
        if before != value and decides.uid == topology.uid:
            found.append(Change(node.name, node.uid, {SLINKY: value}, {SLINKY: before}, "annotations"))
    return found


def condition(
    topology: Topology, wanted: Sequence[Change], left: int, refused: ApiError | None, node: str
) -> Condition | None:
    """The `SlinkyAnnotated` condition; None where the spec asks for none, and none is left."""
    mode = topology.mode("slinky")
    if refused and refused.conflict:
        many = f"{left} {plural(left, 'node keeps', 'nodes keep')}"
        text = f"{many} another owner's annotation, first {node}: {refused.message}"
        return Condition(SLINKY_ANNOTATED, "False", "Conflict", text)
    if refused:
        fix = "; install the component slinky (docs/integrations/slinky.md)" if refused.forbidden else ""
        return Condition(SLINKY_ANNOTATED, "False", "Rejected", f"{refused.message}{fix}")
    if mode == DRY_RUN:
        first = f", first {wanted[0].node}: {wanted[0].values[SLINKY] or 'none'}" if wanted else ""
        text = f"Dry run, nothing is written: {SLINKY} of {len(wanted)} {plural(len(wanted), 'node')}{first}"
        return Condition(SLINKY_ANNOTATED, "True", DRY_RUN, text)
    if left:
        return Condition(SLINKY_ANNOTATED, "Unknown", "Writing", f"{left} {plural(left, 'node')} still to be written")
    if mode == "Never":
        return None
    return Condition(SLINKY_ANNOTATED, "True", "InSync", f"Every selected node with these levels carries {SLINKY}")
