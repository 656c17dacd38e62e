"""What a system's reader is given and what it gives back.

What the readers of all systems share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from toposcope.integrations.framework.constraints import PodGroupMembers, Workload
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.topology.catalogue import BUILT_IN

Severity = Literal["error", "warning", "advice"]
"""Refused, or would never run as meant; accepted but not what it seems; could be better."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about one field of a document."""

    rule: str
    """A short constant word for scripts: `grove/unknown-domain`."""
    severity: Severity
    field: str
    """Its path in the document, empty for the document as a whole."""
    message: str
    """Where a system has words of its own for this (its webhook, its condition), these are they."""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class ExclusivePod:
    """A running pod that keeps others out of its domain."""

    namespace: str
    labels: Mapping[str, str]
    """Those of its node."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known of the cluster that the workload is for."""

    ladders: Mapping[str, TopologyLevels] = field(default_factory=dict)
    """Topologies by name."""
    labels: frozenset[str] = frozenset()
    """Label keys that nodes carry, whether a topology has them or not."""
    holders: Mapping[str, tuple[ExclusivePod, ...]] = field(default_factory=dict)
    """By pod label: where pods that carry it run, for the labels by which pods keep others out of their domain."""

    pools: Mapping[str, TopologyLevels] = field(default_factory=dict)
    """OSMO's pools by name, with the levels as they are called there."""
    schedulers: Mapping[str, str] = field(default_factory=dict)
    """The kind of scheduler that each of OSMO's backends uses."""
    members: PodGroupMembers = field(default_factory=dict)
    """Pods by the PodGroup of KAI's that they are of."""
    domain_of: Mapping[str, str] = field(default_factory=lambda: BUILT_IN.domain_of)
    """The domain of each label key that the catalogue knows."""

    def held(self, mark: str, key: str, namespace: str | None = None) -> tuple[str, ...]:
        """The values of the node label `key` where pods with the label `mark` run, in one namespace or in all."""
        found = {
            holder.labels[key]
            for holder in self.holders.get(mark, ())
            if key in holder.labels and namespace in (None, holder.namespace)
        }
        return tuple(sorted(found))

    def ladder(self, name: str | None) -> TopologyLevels | None:
        """The topology of this name; without a name the only one there is."""
        if name is not None:
            return self.ladders.get(name)
        return next(iter(self.ladders.values())) if len(self.ladders) == 1 else None


@dataclass(frozen=True, slots=True)
class Reading:
    """One document, understood."""

    workload: Workload | None
    """None where it asks for nothing that can be placed."""
    findings: tuple[Finding, ...] = ()
    alternatives: tuple[Workload, ...] = ()
    """Where its system chooses the topology: the same demands on each other one that has the levels."""
    stages: tuple[Workload, ...] = ()
    """Where its parts are placed one by one: the demands of the others, each of which has to fit too."""
    subject: str = ""
    """What the document is, where it says no kind and nothing is placed."""


class System(Protocol):
    """One scheduler or operator: which documents are its own, and what they ask for. One file each."""

    name: str

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Whether this system would act on the document. It may be malformed in any way; never raises."""

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The demands of the document and everything wrong with them, all in one go; never raises.

        `before` is the object as it is in the cluster, for rules about changes.
        """


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings in order, each once."""
    return tuple(dict.fromkeys(findings))


LEVELS_FIRST: Final = "room is not checked before the levels are right"
"""The note on a workload whose levels are not understood: what would fit without them says nothing."""
