"""One node whose agent's token was stolen: anything that it may write, which is its own keys under `gpu.topology/`.

The other nodes are as before, and so must be what schedulers are told of them: the levels of the topology, and where
they are of two kinds, the ClusterTopology of each segment with its name, its honest nodes and its levels.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.api import label_keys
from toposcope.api.cluster_topology import KIND, MANAGED_BY, TOPOSCOPE, Topology, read
from toposcope.api.effective_levels import Absences
from toposcope.controller.assess.assessment import Assessment, assess
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.segments import Segments, child_spec
from toposcope.controller.status import conditions_of, status_of
from toposcope.controller.status_size import MOST_BYTES
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY, ZONE_KEY
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.levels import Level
from toposcope.topology.node import NodeFacts

_FABRIC: Final = "c0ffee00-0000-4000-8000-000000000000"
_TRACKED: Final = frozenset(key for keys in BUILT_IN.keys.values() for key in keys).union(
    {label_keys.GPUS, label_keys.STATE}
)
_OWN: Final = tuple(
    sorted(
        value for name, value in vars(label_keys).items() if name.isupper() and str(value).startswith(label_keys.PREFIX)
    )
)
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_GRACE: Final = 600.0


_LEAF_KEY: Final = "fabric.topograph.run/tier-0"


def _labels(number: int, *, two_kinds: bool) -> dict[str, str]:
    """Racks of four; where there are `two_kinds`, every other rack is NVL72 under a fabric's leaf, not a platform's."""
    labels = {
        label_keys.GPUS: "8",
        label_keys.STATE: "ok",
        label_keys.CHASSIS: str(number // 4),
        label_keys.HOSTNAME: f"n{number}",
    }
    labels[ZONE_KEY] = "a"
    place, domain = {BLOCK_KEY: f"b{number // 8}", RACK_KEY: f"r{number // 4}"}, f"{_FABRIC}.{number // 4}"
    if not two_kinds:
        return labels | place | {label_keys.NVLINK_DOMAIN: domain}
    return labels | ({_LEAF_KEY: f"leaf{number // 4}", label_keys.NVLINK_DOMAIN: domain} if number // 4 % 2 else place)


def _facts(decode: NodeDecoder, number: int, labels: Mapping[str, str]) -> NodeFacts:
    node = {
        "metadata": {"name": f"n{number}", "uid": f"u{number}", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
    }
    return decode(msgspec.json.encode(node))[2]


class _Cluster:
    """Sixteen nodes, and one topology that is looked at again and again, with one for each of its segments."""

    def __init__(self, spec: Mapping[str, Any], name: str = "cluster", owner: str = "") -> None:
        self.spec = spec
        self.children: dict[str, _Cluster] = {}
        self.publishable: tuple[Level, ...] | None = None
        """What schedulers are told, as it stands: None of an assessment leaves it as it is."""
        self._name = name
        self._owner = owner
        self._absences = Absences()
        self._status: dict[str, Any] = {}
        self._now = 0.0

    def look(self, nodes: Sequence[NodeFacts]) -> Assessment:
        """One look, and another one after the grace period."""
        self._once(nodes)
        return self._once(nodes)

    def _once(self, nodes: Sequence[NodeFacts]) -> Assessment:
        topology = self._topology()
        assessment = assess(
            topology, nodes, self._absences, self._now, [] if self._owner else ["rack", "nvlink-domain"]
        )
        conditions = conditions_of(topology, assessment, (), anything_served=True)
        self._status = status_of(topology, assessment, (), _NOW, conditions)
        held(len(msgspec.json.encode(self._status)) <= MOST_BYTES, "the status is larger than it may be")
        for condition in conditions:
            refusal(condition.message)
        self._now += _GRACE + 1
        self.publishable = self.publishable if assessment.publishable is None else assessment.publishable
        if topology.divided and assessment.segments:
            self._divide(topology, assessment.segments, nodes)
        return assessment

    def _divide(self, topology: Topology, segments: Segments, nodes: Sequence[NodeFacts]) -> None:
        """As `toposcope.controller.segments` does it, in memory."""
        for name in segments.dropped:
            self.children.pop(name, None)
        for segment in segments.listed:
            if segment.nodes:
                child = self.children.setdefault(segment.name, _Cluster({}, f"cluster-{segment.name}", "u"))
                child.spec = child_spec(topology, segment)
        for child in self.children.values():
            child._once(nodes)  # noqa: SLF001 - of the same class

    def _topology(self) -> Topology:
        metadata: dict[str, Any] = {"name": self._name, "uid": f"u-{self._name}", "generation": 1}
        if self._owner:
            metadata["labels"] = {MANAGED_BY: TOPOSCOPE}
            metadata["ownerReferences"] = [{"controller": True, "kind": KIND, "uid": self._owner}]
        return read({"metadata": metadata, "spec": self.spec, "status": self._status})

    def members(self, nodes: Sequence[NodeFacts]) -> dict[str, tuple[str, ...]]:
        """The nodes of each child, by its name."""
        children = {name: child._topology() for name, child in self.children.items()}  # noqa: SLF001 - of the same class
        return {name: tuple(n.name for n in nodes if child.selects(n)) for name, child in children.items()}


def attempt(case: Any) -> Outcome:
    """What is published, what is required and what is known of other nodes stays as it was."""
    spec, two_kinds, hostile, from_the_start, changes = case
    decode = NodeDecoder(_TRACKED)
    honest = [_facts(decode, n, _labels(n, two_kinds=two_kinds)) for n in range(16) if n != hostile]
    was = _labels(hostile, two_kinds=two_kinds)
    alone, cluster = _alone(msgspec.json.encode(spec), hostile, two_kinds=two_kinds), _Cluster(spec)
    before = None if from_the_start else cluster.look([_facts(decode, hostile, was), *honest])
    if before:
        _same_segments(alone, cluster, honest)
    for change in changes:
        labels = {key: value for key, value in was.items() if key not in change["without"]} | change["with"]
        after = cluster.look([_facts(decode, hostile, labels), *honest])
        if before:
            _same_levels(before, after)
            _same_segments(alone, cluster, honest)
        _same_members(alone, cluster, honest)
        _together(cluster, honest)
    return "taken"


@cache
def _alone(spec: bytes, hostile: int, *, two_kinds: bool) -> _Cluster:
    """The cluster without the hostile node: nothing changes in it, so one look is as good as many."""
    decode = NodeDecoder(_TRACKED)
    cluster = _Cluster(msgspec.json.decode(spec))
    cluster.look([_facts(decode, n, _labels(n, two_kinds=two_kinds)) for n in range(16) if n != hostile])
    return cluster


def _same_levels(before: Assessment, after: Assessment) -> None:
    held(after.publishable == before.publishable, f"published were {before.publishable}, now {after.publishable}")
    gone = set(after.unavailable) - set(before.unavailable)
    held(not gone, f"required levels are gone: {', '.join(sorted(gone))}")
    for level, nodes in _counts(before).items():
        held(abs(_counts(after)[level] - nodes) <= 1, f"{level}: {nodes} nodes, then {_counts(after)[level]}")


def _counts(assessment: Assessment) -> dict[Level, int]:
    return {row.level: row.nodes for row in assessment.coverage}


def _same_members(alone: _Cluster, cluster: _Cluster, honest: Sequence[NodeFacts]) -> None:
    """Each segment has the name and the honest nodes that it has without the hostile node, who may be there first."""
    there = cluster.members(honest)
    for name, nodes in alone.members(honest).items():
        held(name in there, f"segment {name} is gone; there are {', '.join(there) or 'none'}")
        held(there[name] == nodes, f"segment {name} had {nodes}, and has {there[name]}")


def _same_segments(alone: _Cluster, cluster: _Cluster, honest: Sequence[NodeFacts]) -> None:
    """The same, and what schedulers are told of it."""
    _same_members(alone, cluster, honest)
    for name in alone.children:
        before, now = alone.children[name].publishable, cluster.children[name].publishable
        held(now == before, f"segment {name}: published would be {before}, and are {now}")


def _together(cluster: _Cluster, honest: Sequence[NodeFacts]) -> None:
    """No honest node is in two segments, and nodes that are alike are in the same one."""
    there = cluster.members(honest)
    kinds: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for node in honest:
        mine = tuple(name for name, nodes in there.items() if node.name in nodes)
        held(len(mine) <= 1, f"{node.name} is in the segments {', '.join(mine)}")
        kinds.setdefault(node.keys, set()).add(mine)
    held(all(len(kind) == 1 for kind in kinds.values()), f"nodes that are alike are in different segments: {there}")


_VALUES: Final = st.one_of(
    st.sampled_from(
        [
            "",
            "ok",
            "degraded",
            "unknown",
            "999999999",
            f"{_FABRIC}.1",
            f"{_FABRIC}.999",
            "r1",
            "b1",
            "no-topology",
            "n3",
        ]
    ),
    st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True),
)
"""What the API server takes as a label value."""
_KEYS: Final = st.one_of(
    st.sampled_from(_OWN),
    st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True).map(label_keys.PREFIX.__add__),
)
_LEVELS: Final = [
    {"domain": "rack", "key": RACK_KEY},
    {"domain": "nvlink-domain", "key": label_keys.NVLINK_DOMAIN},
]

HOSTILE: Final = Subject(
    "hostile",
    "a stolen agent's token changes nothing of what schedulers are told of other nodes",
    st.tuples(
        st.sampled_from([{}, {"segments": "Auto"}, {"segments": "Auto"}, {"levels": _LEVELS}]),
        st.booleans(),
        st.sampled_from([0, 4, 15]),
        st.booleans(),
        st.lists(
            st.fixed_dictionaries(
                {
                    "without": st.frozensets(
                        st.sampled_from(
                            [label_keys.GPUS, label_keys.STATE, label_keys.NVLINK_DOMAIN, label_keys.CHASSIS]
                        )
                    ),
                    "with": st.dictionaries(_KEYS, _VALUES, max_size=6),
                }
            ),
            min_size=1,
            max_size=4,
        ),
    ),
    attempt,
)
