"""The tier that pods of one group may spread over at most, as a workload writes it.

Rules and messages: Volcano 1.15 (webhooks of jobs and podgroups, plugin network-topology-aware). A
hard constraint keeps pods below one HyperNode of the allowed tier or a lower one; a tier above all
HyperNodes means the whole cluster. A soft constraint restricts no pod.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES
from toposcope.integrations.volcano.tiers import NAMED

WRONG_LEVEL: Final = frozenset({"volcano/topology-exists", "volcano/level-exists"})
"""Rules about constraints that no HyperNode can meet."""
MODE_LABEL: Final = "volcano.sh/network-topology-mode"
TIER_LABEL: Final = "volcano.sh/network-topology-highest-tier-allowed"
LABEL_RULE: Final = "volcano/label"
"""The rule about labels that keep KubeRay from creating a PodGroup."""
_MODES: Final = ("hard", "soft")
_ADD_MODE: Final = f"add the label {MODE_LABEL}: hard"
_NO_TIER: Final = "sets no tier, so the pods may go anywhere (Volcano 1.14 and later)"
_BOTH: Final = (
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
)
_AUTO: Final = (
    f"let Toposcope create them: set spec.publish.{HYPER_NODES.option}: Auto in a ClusterTopology"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A hard `networkTopology` that holds pods together: the highest tier, or its name."""

    tier: int | None
    name: str

    def level(self, topology: TopologyLevels) -> Level | None:
        """The level of a topology that it means; None if it is none of them."""
        if self.tier is None:
            return _level_named(self.name, topology)
        tiers = _tiers_of(topology)
        allowed = [tier for tier in tiers if tier <= self.tier]
        if not allowed:
            return None
        return tiers[max(allowed)]


def _tiers_of(topology: TopologyLevels) -> dict[int, Level | None]:
    """The level of each tier that has HyperNodes of this topology; None if it is no level."""
    tiers: dict[int, Level | None] = {}
    for alias, key in topology.aliases:
        if not alias.startswith(NAMED):
            tiers[int(alias)] = topology.by_key(key)
    return tiers


def _level_named(name: str, topology: TopologyLevels) -> Level | None:
    """The level of the tier of this name; if no HyperNodes are known, the level of the domain."""
    if topology.source != HYPER_NODES.kind:
        return topology.level(name)
    keys = dict(topology.aliases)
    key = keys.get(NAMED + name)
    if not key:
        return None
    return topology.by_key(key)


def _names_of_tiers(topology: TopologyLevels) -> Sequence[str]:
    """The names that tiers of the topology have."""
    if topology.source != HYPER_NODES.kind:
        return topology.domains
    names = []
    for alias, _ in topology.aliases:
        if alias.startswith(NAMED):
            names.append(alias.removeprefix(NAMED))
    return names


def limit_of(group: Field, cluster: ClusterFacts) -> Limit | None:
    """The constraint of a Job, a PodGroup or a part of one; None if pods may go anywhere.

    Records a finding for what a webhook rejects and for a tier that no HyperNode has.
    """
    topology = group / "networkTopology"
    number = topology / "highestTierAllowed"
    name = topology / "highestTierName"
    limit = written_limit(topology)
    return _known_limit(limit, _Places(topology, number, name), cluster)


def written_limit(topology: Field) -> Limit | None:
    """The hard constraint that `networkTopology` writes; None if there is none or it is soft."""
    number = topology / "highestTierAllowed"
    name = topology / "highestTierName"
    if number and name.text():
        topology.error("volcano/tier-or-name", _BOTH, "keep one of them")
    if not topology or (topology / "mode").text() == "soft":
        return None

    limit = Limit(tier=None, name=name.text() or "")
    if number:
        limit = replace(limit, tier=number.number(1))
    if limit.tier is None and not limit.name:
        fix = "set highestTierAllowed or highestTierName"
        topology.warn("volcano/no-tier", _NO_TIER, fix)
        return None
    return limit


def limit_of_labels(labels: Field, cluster: ClusterFacts) -> Limit | None:
    """The constraint in the labels that KubeRay copies into a PodGroup; None if there is none.

    Source: KubeRay 1.6 (controllers/ray/batchscheduler/volcano). It creates no PodGroup if the
    labels are malformed.
    """
    mode = labels / MODE_LABEL
    tier = labels / TIER_LABEL
    number = tier.text() or ""
    if not mode.text():
        if number:
            tier.warn("volcano/no-mode", f"has no effect without {MODE_LABEL}", _ADD_MODE)
        return None
    if mode.text() not in _MODES:
        text = (
            f"{mode.text()!r} is not one of {', '.join(_MODES)}, so KubeRay cannot create a "
            "PodGroup"
        )
        mode.error(LABEL_RULE, text, did_you_mean(mode.text() or "", _MODES))
        return None
    if number and not number.isdecimal():
        text = f"{number!r} is not a whole number, so KubeRay creates no PodGroup and no pod starts"
        tier.error(LABEL_RULE, text, "set the number of a tier, in quotes")
        return None
    if mode.text() == "soft":
        return None
    if not number:
        mode.warn("volcano/no-tier", _NO_TIER, f"add the label {TIER_LABEL}")
        return None
    limit = Limit(tier=int(number), name="")
    return _known_limit(limit, _Places(tier, tier, tier), cluster)


@dataclass(frozen=True, slots=True)
class _Places:
    """The fields in which a constraint is set."""

    whole: Field
    tier: Field
    name: Field


def _known_limit(limit: Limit | None, written: _Places, cluster: ClusterFacts) -> Limit | None:
    """The constraint, or None if the known HyperNodes make it ineffective."""
    if limit is None or HYPER_NODES.option not in cluster.read:
        return limit
    if _check_tier(written, limit, cluster):
        return limit
    return None


def _check_tier(written: _Places, limit: Limit, cluster: ClusterFacts) -> bool:
    """Note a tier that no HyperNode has. Returns whether the constraint is effective."""
    tiers: set[int] = set()
    for topology in cluster.topologies.values():
        tiers.update(_tiers_of(topology))
    if not tiers:
        text = (
            "there are no HyperNodes, so the whole cluster counts as one and the pods may go "
            "anywhere"
        )
        fix = cluster.missing("") or _AUTO
        written.whole.error("volcano/topology-exists", text, fix)
        return True

    if limit.tier is None:
        _check_name(written.name, limit.name, cluster)
        return True

    lowest = min(tiers)
    highest = max(tiers)
    if limit.tier < lowest:
        text = f"no HyperNode has tier {limit.tier} or lower, so the pods can never be placed"
        written.tier.error("volcano/level-exists", text, f"the lowest tier is {lowest}")
    if limit.tier > highest:
        text = (
            f"is above the highest tier of the HyperNodes ({highest}), so the pods may go anywhere"
        )
        written.tier.warn("volcano/tier-above-all", text, "use a tier that exists")
        return False
    return True


def _check_name(field: Field, name: str, cluster: ClusterFacts) -> None:
    """Note a tier name that no level has."""
    names: list[str] = []
    for topology in cluster.topologies.values():
        if _level_named(name, topology) is not None:
            return
        names += _names_of_tiers(topology)
    text = (
        f"failed to find hypernode tier name {name}: the scheduler logs this and places the pods "
        "anywhere"
    )
    fix = did_you_mean(name, names)
    field.error("volcano/level-exists", text, fix)
