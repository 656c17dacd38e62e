"""Groups of pods judged on a few nodes, and builders for both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.placement.contradictions import contradiction
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, simplified
from toposcope.integrations.framework.node_affinity import NodeFilter, Taint
from toposcope.placement.room import Obstacle, Room, RoomNode
from toposcope.placement.search import Search
from toposcope.placement.sentences import advice, answer, left_out, offered, reasoning
from toposcope.placement.shortage import offers
from toposcope.placement.verdict import fittings, judge

GPU = "nvidia.com/gpu"
GIB = 2**30
BLOCK = Level("block", "example.com/block")
RACK = Level("rack", "example.com/rack")
HOST = Level("host", "kubernetes.io/hostname")
LEVELS = (BLOCK, RACK, HOST)
_RESOURCES = {"gpus": GPU}
_OWN_NAME = "its own name"


def amounts(**counts: int) -> dict[str, int]:
    """Amounts of resources; CPU in thousandths, memory in bytes."""
    return {_RESOURCES.get(name, name): count for name, count in counts.items()}


WHOLE = amounts(gpus=8, cpu=64_000, pods=110)
LARGE = amounts(gpus=8, cpu=64_000, memory=512 * GIB, pods=110)


def node(
    name: str,
    place: str,
    total: Mapping[str, int],
    *,
    free: Mapping[str, int] | None = None,
    obstacle: Obstacle = "",
    taints: Sequence[Taint] = (),
    hostname: str | None = _OWN_NAME,
) -> RoomNode:
    """A node in `block/rack`, in a block alone, or nowhere; all of it is free unless `free` says what is."""
    labels = dict(zip((BLOCK.key, RACK.key), place.split("/"), strict=False)) if place else {}
    if hostname is not None:
        labels[HOST.key] = name if hostname == _OWN_NAME else hostname
    return RoomNode(name, labels, total if free is None else free, total, tuple(taints), obstacle)


def pods(
    count: int,
    *,
    name: str = "p",
    on: NodeFilter | None = None,
    other: Mapping[str, int] | None = None,
    **requests: int,
) -> Pods:
    """So many pods, and what each requests; `other`: of resources whose names are no keywords."""
    each = (*amounts(**requests).items(), *(other or {}).items())
    return Pods(name, count, each, on) if on else Pods(name, count, each)


def group(
    name: str,
    *members: Pods | Group,
    required: Level | None = None,
    preferred: Level | None = None,
    copies: int = 1,
    apart: str = "",
    part: str = "",
    own_name: str = "",
) -> Group:
    """A group of pods and groups; `apart`: the label of groups that share no domain."""
    return Group(
        name,
        pods=tuple(member for member in members if isinstance(member, Pods)),
        groups=tuple(member for member in members if isinstance(member, Group)),
        required=required,
        preferred=preferred,
        copies=copies,
        anti_affinity=apart,
        part=part,
        own_name=own_name,
    )


@dataclass(frozen=True)
class Placed:
    """Where the pods of a group go: how many on each node, in which domain."""

    group: str
    domain: str
    nodes: dict[str, int]


@dataclass(frozen=True)
class Roomy:
    """A domain with room for one copy, and what is free there."""

    domain: str
    nodes: int
    free: int


@dataclass(frozen=True)
class Short:
    """What there is too little of, as JSON has it."""

    level: str | None
    counted: str
    resource: str
    needs: int
    largest: int
    best: str = ""
    copies: int = 1
    room_for: int = 0


class JudgedGroups:
    """What is said of groups on nodes. A refusal must not contradict itself."""

    def __init__(self, nodes: Sequence[RoomNode], groups: Sequence[Group], *, partial: bool) -> None:
        self._verdict = judge(groups, LEVELS, nodes, can_lack_levels=partial)
        self._fittings = fittings(groups, LEVELS, nodes, can_lack_levels=partial)
        self._simplified = simplified(groups)
        self._room = Room(LEVELS, nodes, self._simplified, can_lack_levels=partial)
        if self._verdict.kind not in {"fits", "unclear"}:
            assert contradiction(self.answer) == ""

    @property
    def answer(self) -> str:
        """The verdict, in the sentence that users read."""
        return answer(self._verdict)

    @property
    def said(self) -> list[str]:
        """What would help, the reasoning, and which nodes are left out."""
        return [*advice(self._verdict), *reasoning(self._verdict), *left_out(self._verdict)]

    @property
    def placed(self) -> list[Placed]:
        """Where the pods go; a search finds the same at once, without trying everything."""
        expected = self._verdict.placed if self._verdict.kind == "fits" else None
        assert Search(self._room).place(self._simplified) == expected
        return [Placed(copy.group.name, "/".join(copy.domain), dict(copy.nodes)) for copy in self._verdict.placed]

    @property
    def short(self) -> Short:
        """What there is too little of."""
        shortage = self._verdict.shortage
        assert shortage, f"nothing is short: {self.answer}"
        return Short(
            level=shortage.level.domain if shortage.level else None,
            counted=shortage.counted,
            resource=shortage.resource,
            needs=shortage.needs,
            largest=shortage.largest,
            best="/".join(shortage.best),
            copies=shortage.copies,
            room_for=shortage.room_for,
        )

    @property
    def remedies(self) -> list[list[str]]:
        """What would help, each with the resources of which there is too little there."""
        return [[remedy.act, *remedy.short] for remedy in self._verdict.remedies]

    @property
    def offers(self) -> list[str]:
        """What the domains of the level that is too small have."""
        shortage = self._verdict.shortage
        assert shortage, f"nothing is short: {self.answer}"
        assert shortage.level, f"no level is too small: {self.answer}"
        domains = offers(self._room, shortage.group, shortage.level, shortage.resource)
        return [offered(offer, shortage) for offer in domains]

    @property
    def roomy(self) -> list[Roomy]:
        """All domains with room for one copy, the fullest first."""
        assert self._fittings, "nothing is required to stay together"
        assert self._fittings.is_exact
        assert self._fittings.group.required == self._fittings.level
        return [
            Roomy("/".join(fitting.domain), nodes=fitting.nodes, free=fitting.free)
            for fitting in self._fittings.domains
        ]


def judge_groups(nodes: Sequence[RoomNode], *groups: Group, partial: bool = False) -> JudgedGroups:
    """Judge groups on nodes; `partial`: nodes that lack a level may take pods that ask for none."""
    return JudgedGroups(nodes, groups, partial=partial)
