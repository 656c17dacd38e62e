"""How the machines of a topology are: what their agents say and what is amiss between them, in numbers and words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.api.conditions import FABRIC_HEALTHY, Condition
from toposcope.api.label_keys import MATRIX, STATE
from toposcope.controller.assess.degraded import DegradedLevel, degraded_levels
from toposcope.controller.assess.fabric import FabricFacts, Small, Split, fabric_facts
from toposcope.topology.hardware import State
from toposcope.topology.hierarchy import MOST_NAMES
from toposcope.topology.levels import Level
from toposcope.topology.table import Machines, Table
from toposcope.topology.text import plural

MOST_FINDINGS: Final = 5
"""How many split or small domains a message or status names."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the selected nodes say of their hardware."""

    gpus: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    """Nodes by `State`; those without an agent's word are in none."""
    degraded_nodes: tuple[str, ...] = ()
    """The first `MOST_NAMES` names, sorted."""
    levels: tuple[DegradedLevel, ...] = ()
    """The levels that degraded nodes carry."""
    fabric: FabricFacts = field(default_factory=FabricFacts)

    def count(self, state: State) -> int:
        """Nodes in that state."""
        return self.states.get(state, 0)


def health(levels: Sequence[Level], nodes: Table) -> Health:
    """The health of `nodes`, whose levels are `levels`, broadest first."""
    gpus, states = nodes.of_machines(_gpus_and_states)
    degraded = (kind.hardware.state == State.DEGRADED for kind in nodes.kinds) if states[State.DEGRADED] else ()
    return Health(
        gpus=gpus,
        states={state: states[state] for state in State if states[state]},
        degraded_nodes=nodes.first_names(degraded, MOST_NAMES),
        levels=degraded_levels(levels, nodes) if states[State.DEGRADED] else (),
        fabric=fabric_facts(levels, nodes),
    )


def _gpus_and_states(machines: Machines) -> tuple[int, Counter[str]]:
    states: Counter[str] = Counter()
    total = 0
    for (_, _, state, gpus), count in machines:
        states[state] += count
        total += gpus * count
    return total, states


def fabric_condition(found: Health) -> Condition:
    """The condition about it; the gravest finding gives the reason, the message has them all."""
    degraded, unknown = found.count(State.DEGRADED), found.count(State.UNKNOWN)
    parts = []
    if found.fabric.splits:
        parts.append(("DomainsSplit", _splits(found.fabric.splits)))
    if degraded:
        parts.append(("NodesDegraded", _degraded(degraded, found.degraded_nodes)))
    if found.fabric.small:
        parts.append(("DomainsSmall", _smalls(found.fabric.small)))
    if unknown:
        who = "1 node does" if unknown == 1 else f"{unknown} nodes do"
        text = f"the hardware of {who} not answer; list: kubectl get nodes -l {STATE}={State.UNKNOWN}"
        parts.append(("NodesUnknown", text))
    if not parts:
        return Condition(FABRIC_HEALTHY, "True", "AllHealthy", "No node is degraded and no NVLink domain is broken")
    return Condition(FABRIC_HEALTHY, "False", parts[0][0], "; ".join(text for _, text in parts))


def _degraded(count: int, names: Sequence[str]) -> str:
    who = "1 node is degraded" if count == 1 else f"{count} nodes are degraded"
    return f"{who}: {', '.join(names)}{_more(count - len(names))}; the annotation {MATRIX} of each tells why"


def _splits(found: Sequence[Split]) -> str:
    named = ", ".join(
        f"{each.by} {each.name} ({each.nodes} nodes in {each.domains} domains)" for each in found[:MOST_FINDINGS]
    )
    what = "1 NVLink domain is split" if len(found) == 1 else f"{len(found)} NVLink domains are split"
    return (
        f"{what}: {named}{_more(len(found) - MOST_FINDINGS)}; unless a partition is meant, look at the fabric "
        "state of the nodes that left"
    )


def _smalls(found: Sequence[Small]) -> str:
    named = ", ".join(
        f"{each.name} ({each.gpus} {plural(each.gpus, 'GPU')}, usual {each.usual})" for each in found[:MOST_FINDINGS]
    )
    what = (
        "1 NVLink domain is smaller than its siblings"
        if len(found) == 1
        else f"{len(found)} NVLink domains are smaller than their siblings"
    )
    return f"{what}: {named}{_more(len(found) - MOST_FINDINGS)}"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
