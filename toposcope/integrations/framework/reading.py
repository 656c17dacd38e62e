"""What a system's reader is given and what it gives back.

What the readers of all systems share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal, Protocol

from toposcope.integrations.framework.constraints import Members, Workload
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.levels import Level

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
class Ladder:
    """The levels of one topology, broadest first, as a workload can name them."""

    name: str
    levels: tuple[Level, ...]
    source: str = "ClusterTopology"
    """The kind of the object that says so."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Other names of label keys, as KAI's Topology may have them: alias and key."""

    def by_key(self, term: str) -> Level | None:
        """The level that a label key names, or an alias of one; a domain (`rack`) does not."""
        key = dict(self.aliases).get(term, term)
        return next((level for level in self.levels if level.key == key), None)

    def level(self, term: str) -> Level | None:
        """The level that a domain (`rack`) or a label key names."""
        return next((level for level in self.levels if term in (level.domain, level.key)), None)

    def rank(self, level: Level) -> int:
        """0 for the broadest level, one more for each narrower one."""
        return self.levels.index(level)

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the levels."""
        return tuple(level.domain for level in self.levels)

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys of the levels."""
        return tuple(level.key for level in self.levels)


@dataclass(frozen=True, slots=True)
class Holder:
    """A running pod that keeps others out of its domain."""

    namespace: str
    labels: Mapping[str, str]
    """Those of its node."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the cluster that the workload is for."""

    ladders: Mapping[str, Ladder] = field(default_factory=dict)
    """Topologies by name."""
    labels: frozenset[str] = frozenset()
    """Label keys that nodes carry, whether a topology has them or not."""
    holders: Mapping[str, tuple["Holder", ...]] = field(default_factory=dict)
    """By pod label: where pods that carry it run, for the labels by which pods keep others out of their domain."""

    pools: Mapping[str, Ladder] = field(default_factory=dict)
    """OSMO's pools by name, with the levels as they are called there."""
    schedulers: Mapping[str, str] = field(default_factory=dict)
    """The kind of scheduler that each of OSMO's backends uses."""
    members: Members = field(default_factory=dict)
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

    def ladder(self, name: str | None) -> Ladder | None:
        """The topology of this name; without a name the only one there is."""
        if name is not None:
            return self.ladders.get(name)
        return next(iter(self.ladders.values())) if len(self.ladders) == 1 else None


def near(name: str, among: Iterable[str]) -> str:
    """`did you mean 'rack'?` for the closest of `among`, else the list of them; empty when there are none."""
    choices = sorted(set(among))
    close = get_close_matches(name, choices, 1, cutoff=0.75)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(choices)}" if choices else ""


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

    def read(self, document: Mapping[str, Any], known: Known, before: Mapping[str, Any] | None = None) -> Reading:
        """The demands of the document and everything wrong with them, all in one go; never raises.

        `before` is the object as it is in the cluster, for rules about changes.
        """


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings in order, each once."""
    return tuple(dict.fromkeys(findings))


LEVELS_FIRST: Final = "room is not checked before the levels are right"
"""The note on a workload whose levels are not understood: what would fit without them says nothing."""


def key_fix(term: str, ladders: Iterable[Ladder]) -> str:
    """What to write where a label key was expected and `term` is none of those that the topologies have."""
    levels = [level for ladder in ladders for level in ladder.levels]
    for level in levels:
        if level.domain == term:
            return f"label keys are taken here: write {level.key!r}"
    return near(term, (level.key for level in levels))
