"""Whether a workload would fit, as data: the answer, its evidence, what is missing, what helps.

`toposcope/placement/` computes it, a system's own procedure may change it, and
`placement/sentences.py` says it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.document import UnreadField
from toposcope.integrations.framework.node_affinity import Exclusion, Taint
from toposcope.integrations.framework.packing import Path
from toposcope.text import Command

Kind = Literal["fits", "full", "never", "unclear"]
"""It fits now; only on the empty cluster; not even there; no placement was found, though one may
exist.
"""
Amounts = tuple[tuple[str, int], ...]
Counted = Literal["pod", "barred", "resource", "pods", "groups", "domains", "several", "pieces"]
"""What there is too little of: a resource on any one node; nodes that pods may use; a resource;
nodes that take whole pods; domains for a smaller group; domains for copies that share none; in each
domain something else; nothing, but not for all at once.
"""


@dataclass(frozen=True, slots=True)
class Placed:
    """One copy of a group: its domain, and how many of its own pods are on which node."""

    group: Group
    domain: Path
    nodes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Lack:
    """What `domains` domains lack: a resource, or room for the group of this name."""

    counted: Counted
    what: str
    domains: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """One copy of a group `needs` more than the `largest` domain has, or too few copies fit."""

    group: Group
    level: Level | None
    """None if any nodes will do."""
    counted: Counted
    resource: str
    """The missing resource; if none is missing, the scarcest that is requested."""
    needs: int
    largest: int
    best: Path
    """The domain; for one pod the node's name."""
    copies: int
    """How many copies are wanted."""
    room_for: int
    """How many fit, always fewer; 0 if not even one fits."""
    each: Amounts = ()
    """`pods`: the requests of one that are too large. `several`: what one copy needs."""
    inner: Group | None = None
    """The smaller group."""
    lacking: tuple[Lack, ...] = ()
    """`several`: what is missing, and where."""
    kind: str = ""
    """`barred`: the name of the pods that no node accepts."""
    barred: tuple[tuple[Exclusion, int], ...] = ()
    """`barred`: why nodes do not accept them, and how many nodes."""


@dataclass(frozen=True, slots=True)
class Best:
    """The domain that the search chose, before anything is placed in it."""

    level: Level
    domain: Path
    nodes: int
    resource: str
    free: int
    has_whole_gpus: bool = True
    """False if some of the free GPUs are shares that a device plugin offers as GPUs."""


@dataclass(frozen=True, slots=True)
class LevelStep:
    """One level's part in the answer: its domains, and how many have room for a copy."""

    group: Group
    level: Level
    domains: int
    roomy: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do in one domain, after which the workload fits there."""

    act: Literal["open", "drain", "tolerate", "preempt"]
    """Bring nodes back (Ready, uncordoned); move running pods away; tolerate taints; nothing,
    because the scheduler evicts `pods` itself.
    """
    nodes: tuple[str, ...]
    domain: Path = ()
    short: tuple[str, ...] = ()
    """Resources that are short on these nodes."""
    pods: tuple[str, ...] = ()
    """The pods to move, as `namespace/name`: those on these nodes that hold what is short, if
    known."""
    taints: tuple[Taint, ...] = ()
    """The taints that its pods must tolerate."""


@dataclass(frozen=True, slots=True)
class UnusableNodes:
    """Nodes that no pod of the workload can use, all for the same reason."""

    exclusion: Exclusion
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for all groups of a workload together."""

    kind: Kind
    placed: tuple[Placed, ...] = ()
    roomy: int = 0
    """How many domains of the outermost required level have room for it now; 0 without such a
    level."""
    is_roomy_exact: bool = True
    best: Best | None = None
    """The domain that would be chosen; None without such a level."""
    shortage: Shortage | None = None
    remedies: tuple[Remedy, ...] = ()
    steps: tuple[LevelStep, ...] = ()
    excluded: tuple[UnusableNodes, ...] = ()
    """Nodes that are not counted."""
    limitation: str = ""
    """Why the scheduler misses a placement that exists; empty if it does not."""
    is_on_shares: bool = False
    """Whether it fits only on GPUs that are shares of GPUs."""
    waiting_pods: int = 0
    """How many of its pods would still wait for room if it fits: those that need not start with the
    others.
    """
    names: Mapping[Path, str] = field(default_factory=dict)
    """The names of the domains in this verdict."""
    unread: tuple[UnreadField, ...] = ()
    """Unread fields that may change the answer."""
    without_unread: "Verdict | None" = None
    """The answer if these fields were unset; None if it is unclear even then."""
    queue_command: Command | None = None
    """The command that shows the queue that holds it back; None if room is short."""

    @property
    def fits(self) -> bool:
        """Whether there is a placement now, and the scheduler finds one."""
        return self.kind == "fits"

    @property
    def refuses(self) -> bool:
        """Whether it is certain that the workload would wait."""
        return self.kind in ("full", "never")

    def name(self, domain: Path) -> str:
        """The name of a domain."""
        domain_name = self.names.get(domain)
        if domain_name:
            return domain_name
        return "/".join(domain) or "the cluster"

    def limited(
        self, kind: Kind, limitation: str, queue_command: Command | None = None
    ) -> "Verdict":
        """The same evidence with the verdict that the scheduler would not place it, and why."""
        return Verdict(
            kind=kind,
            steps=self.steps,
            excluded=self.excluded,
            limitation=limitation,
            queue_command=queue_command,
        )
