"""Objects of the API server: Nodes and ClusterTopologies, broken or written with a stolen token."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, documents, held, refusal, scalars, spoiled, subject, words
from toposcope.api import label_keys
from toposcope.api.cluster_topology import KIND, MANAGED_BY, TOPOSCOPE, Topology, read
from toposcope.api.levels import Level, level_problems
from toposcope.controller.assess.assessment import Assessment, Evidence, assess
from toposcope.controller.memory import Memory
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.segments import Segments, child_spec
from toposcope.controller.status import conditions_of, status_of
from toposcope.controller.status_size import MOST_BYTES
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.node import NodeFacts, node_facts
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY, ZONE_KEY
from toposcope.snapshot.decode import Decoder, topology_of

# Node objects with anything in them, on their way to a status and to what schedulers see.
_GPUS: Final = label_keys.GPUS
_FABRIC: Final = "c0ffee00-0000-4000-8000-000000000000"
_LIKELY: Final = (
    _GPUS, label_keys.NVLINK_DOMAIN, label_keys.STATE, label_keys.CHASSIS, label_keys.HOSTNAME,
    ZONE_KEY, BLOCK_KEY, RACK_KEY,
    "rack-1", "rack-2", "ok", "degraded", "8", "nvidia.com/gpu", "True", "Ready",
)  # fmt: skip
_TRACKED: Final = frozenset(key for keys in BUILT_IN.keys.values() for key in keys).union(
    _LIKELY[:8]
)
_SPEC: Final[dict[str, Any]] = {
    "metadata": {"name": "cluster", "uid": "u", "generation": 1},
    "spec": {},
}
_GRACE_SECONDS: Final = 600.0
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _object(name: str, number: int, labels: Mapping[str, str]) -> dict[str, Any]:
    """A Node of eight GPUs that is ready."""
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "labels": labels,
        },
        "spec": {"unschedulable": False},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "8"},
        },
    }


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    half = str(number % 2)
    labels = {
        _GPUS: "8",
        label_keys.STATE: "ok",
        label_keys.HOSTNAME: name,
        label_keys.NVLINK_DOMAIN: f"{_FABRIC}.{half}",
        label_keys.CHASSIS: half,
        ZONE_KEY: "a",
        BLOCK_KEY: "b1",
        RACK_KEY: f"rack-{half}",
    }
    return _object(name, number, labels)


_LEVEL_KEYS: Final = tuple(BUILT_IN.domain_of)


def _crowd(kinds: list[int]) -> list[Any]:
    """Nodes with long names, levels of their own choice and the longest values.

    The status has no room for all of them.
    """
    nodes = []
    for number, kind in enumerate(kinds):
        name = f"n{number}" + "x" * 240
        labels = {_GPUS: "8", label_keys.STATE: "degraded"}
        for place, key in enumerate(_LEVEL_KEYS):
            bit = 1 << place
            if kind & bit:
                labels[key] = f"{number:x>63}"
        node = _object(name, number, labels)
        nodes.append(node)
    return nodes


_SPOILED: Final = st.one_of(spoiled([_node(n) for n in range(6)], *_LIKELY), scalars())
_KINDS: Final = st.integers(0, 2 ** len(_LEVEL_KEYS) - 1)


@subject(
    "any nodes give a status of at most 16 KiB and levels that every scheduler takes",
    st.one_of(
        st.lists(_SPOILED, min_size=1, max_size=6).map(
            lambda spoilt: [*map(_node, range(10, 14)), *spoilt]
        ),
        st.lists(_KINDS, min_size=8, max_size=24).map(_crowd),
    ),
)
def nodes(case: Any) -> Outcome:
    """An object that is no Node is refused.

    All others end in a status within its size and in levels that schedulers take.
    """
    decode, view = NodeDecoder(_TRACKED), Decoder(lambda _name, _bad: True)
    decoded: list[NodeFacts] = []
    outcome: Outcome = "taken"
    for document in case:
        try:
            raw = msgspec.json.encode(document)
        except (UnicodeEncodeError, OverflowError):
            continue  # no JSON, so no server sends it
        try:
            decoded.append(decode(raw)[2])
        except ValueError as error:
            outcome = refusal(error)
        try:
            view.node(partial(_decoded, raw))
        except ValueError as error:
            outcome = refusal(error)
    _judged({node.name: node for node in decoded}, read(_SPEC))
    return outcome


def _decoded(raw: bytes, kind: type[Any]) -> Any:
    return msgspec.json.decode(raw, type=kind)


def _status(topology: Topology, assessment: Assessment) -> dict[str, Any]:
    """The status, which is within its size and whose conditions are sentences."""
    conditions = conditions_of(topology, assessment, (), is_any_served=True)
    for condition in conditions:
        refusal(condition.message)
    status = status_of(topology, assessment, (), _NOW, conditions)
    held(len(msgspec.json.encode(status)) <= MOST_BYTES, "the status is larger than it may be")
    return status


def _judged(nodes: dict[str, NodeFacts], topology: Topology) -> None:
    memory = Memory()
    assess(topology, Evidence(nodes.values(), required=["rack"]), memory)
    # what nodes carry is believed by now
    evidence = Evidence(nodes.values(), now=_GRACE_SECONDS + 1, required=["rack"])
    assessment = assess(topology, evidence, memory)
    _status(topology, assessment)
    if assessment.publishable is not None:
        held(
            not level_problems(assessment.publishable),
            f"schedulers refuse the levels {assessment.publishable}",
        )


# ClusterTopologies as no admission ever let them through, read by the controller and from files.
_NODES: Final = tuple(
    node_facts(
        f"n{i}",
        f"u{i}",
        ("example.com/rack", _GPUS, "pool"),
        (f"r{i % 2}", "8", "a"),
        is_ready=True,
        is_schedulable=True,
        gpus=8,
    )
    for i in range(4)
)


@subject(
    "a ClusterTopology that the CRD would have refused is reported and crashes nothing",
    spoiled(
        documents("clustertopology.yaml"),
        "rack",
        "host",
        "zone",
        _GPUS,
        "In",
        "Exists",
        "Auto",
        "Never",
        "1h30m",
    ),
)
def specs(case: Any) -> Outcome:
    """Read with its problems in words, assessed without a crash."""
    try:
        msgspec.json.encode(case)
    except (UnicodeEncodeError, OverflowError):
        return "refused"  # no JSON: neither a server nor a file gives such a thing
    try:
        topology_of(case)
    except ValueError as error:
        refusal(error)
    if not _is_object(case):
        return "refused"  # the collection never holds it
    topology = read(case)
    for problem in topology.problems:
        refusal(problem)
    _status(topology, assess(topology, Evidence(_NODES), Memory()))
    return "refused" if topology.problems else "taken"


def _is_object(case: Any) -> bool:
    """What any API server sees to, whatever the CRD says: an object with a name and a uid."""
    if not isinstance(case, dict):
        return False
    metadata = case.get("metadata")
    if not isinstance(metadata, dict):
        return False

    for field in ("name", "uid"):
        if not isinstance(metadata.get(field), str):
            return False
    generation = metadata.get("generation", 0)
    return isinstance(generation, int)


# One node whose agent's token was stolen: anything that it may write, which is its own keys under
# `gpu.topology/`.
#
# The other nodes are as before, and so must be what schedulers see of them: the levels of the
# topology, and where they are of two kinds, the ClusterTopology of each segment with its name, its
# honest nodes and its levels.
_OWN: Final = tuple(
    sorted(
        value
        for name, value in vars(label_keys).items()
        if name.isupper() and str(value).startswith(label_keys.PREFIX)
    )
)

_LEAF_KEY: Final = "fabric.topograph.run/tier-0"


def _labels(number: int, *, has_two_kinds: bool) -> dict[str, str]:
    """Racks of four; with `has_two_kinds` every other rack is NVL72 under a fabric's leaf."""
    rack = number // 4
    is_nvl72 = not has_two_kinds or rack % 2 == 1
    is_under_leaf = has_two_kinds and is_nvl72
    labels = {
        _GPUS: "8",
        label_keys.STATE: "ok",
        label_keys.HOSTNAME: f"n{number}",
        label_keys.CHASSIS: str(rack),
        ZONE_KEY: "a",
    }
    if is_under_leaf:
        labels[_LEAF_KEY] = f"leaf{rack}"
    else:
        labels[BLOCK_KEY] = f"b{number // 8}"
        labels[RACK_KEY] = f"r{rack}"
    if is_nvl72:
        labels[label_keys.NVLINK_DOMAIN] = f"{_FABRIC}.{rack}"
    return labels


def _facts(decode: NodeDecoder, number: int, labels: Mapping[str, str]) -> NodeFacts:
    document = _object(f"n{number}", number, labels)
    raw = msgspec.json.encode(document)
    _, _, facts = decode(raw)
    return facts


class _Cluster:
    """Sixteen nodes, and a topology that is assessed again and again, with one for each segment."""

    def __init__(self, spec: Mapping[str, Any], name: str = "cluster", owner: str = "") -> None:
        self.spec = spec
        self.children: dict[str, _Cluster] = {}
        self.publishable: tuple[Level, ...] | None = None
        """What schedulers see, as it stands: None of an assessment leaves it as it is."""
        self._name = name
        self._owner = owner
        self._memory = Memory()
        self._status: dict[str, Any] = {}
        self._now = 0.0

    def look(self, nodes: Sequence[NodeFacts]) -> Assessment:
        """One look, and another one after the grace period."""
        self._once(nodes)
        return self._once(nodes)

    def _once(self, nodes: Sequence[NodeFacts]) -> Assessment:
        topology = self._topology()
        required = [] if self._owner else ["rack", "nvlink-domain"]
        evidence = Evidence(nodes, now=self._now, required=required)
        assessment = assess(topology, evidence, self._memory)
        self._status = _status(topology, assessment)
        self._now += _GRACE_SECONDS + 1
        self.publishable = (
            self.publishable if assessment.publishable is None else assessment.publishable
        )
        if topology.is_divided and assessment.segments:
            self._divide(topology, assessment.segments, nodes)
        return assessment

    def _divide(self, topology: Topology, segments: Segments, nodes: Sequence[NodeFacts]) -> None:
        """As `toposcope.controller.segments` does it, in memory."""
        for name in segments.dropped:
            self.children.pop(name, None)
        for segment in segments.listed:
            if segment.nodes:
                child = self.children.setdefault(
                    segment.name, _Cluster({}, f"cluster-{segment.name}", "u")
                )
                child.spec = child_spec(topology, segment)
        for child in self.children.values():
            child._once(nodes)  # noqa: SLF001 - of the same class

    def _topology(self) -> Topology:
        metadata: dict[str, Any] = {
            "name": self._name,
            "uid": f"u-{self._name}",
            "generation": 1,
        }
        if self._owner:
            owner = {
                "controller": True,
                "kind": KIND,
                "uid": self._owner,
            }
            metadata["labels"] = {MANAGED_BY: TOPOSCOPE}
            metadata["ownerReferences"] = [owner]
        document = {
            "metadata": metadata,
            "spec": self.spec,
            "status": self._status,
        }
        return read(document)

    def members(self, nodes: Sequence[NodeFacts]) -> dict[str, tuple[str, ...]]:
        """The nodes of each child, by its name."""
        members = {}
        for name, child in self.children.items():
            topology = child._topology()  # noqa: SLF001 - of the same class
            members[name] = tuple(node.name for node in nodes if topology.selects(node))
        return members


_VALUES: Final = st.one_of(
    st.sampled_from(words("label values")),
    st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True),
)
"""What the API server takes as a label value."""
_KEYS: Final = st.one_of(
    st.sampled_from(_OWN),
    st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True).map(
        label_keys.PREFIX.__add__
    ),
)
_LEVELS: Final = [
    {"domain": "rack", "key": RACK_KEY},
    {"domain": "nvlink-domain", "key": label_keys.NVLINK_DOMAIN},
]
_LOST: Final = (_GPUS, label_keys.STATE, label_keys.NVLINK_DOMAIN, label_keys.CHASSIS)
_CHANGES: Final = st.fixed_dictionaries(
    {
        "without": st.frozensets(st.sampled_from(_LOST)),
        "with": st.dictionaries(_KEYS, _VALUES, max_size=6),
    }
)
_SPECS: Final = st.sampled_from(
    [{}, {"segments": "Auto"}, {"segments": "Auto"}, {"levels": _LEVELS}]
)
_HOSTILE: Final = st.sampled_from([0, 4, 15])


@subject(
    "a stolen agent's token cannot change how schedulers see other nodes",
    st.tuples(
        _SPECS, st.booleans(), _HOSTILE, st.booleans(), st.lists(_CHANGES, min_size=1, max_size=4)
    ),
)
def hostile(case: Any) -> Outcome:
    """What is published, what is required and what is known of other nodes stays as it was."""
    spec, two_kinds, stolen, from_the_start, changes = case
    decode = NodeDecoder(_TRACKED)
    honest = []
    for number in range(16):
        if number != stolen:
            labels = _labels(number, has_two_kinds=two_kinds)
            honest.append(_facts(decode, number, labels))

    alone = _alone(msgspec.json.encode(spec), stolen, has_two_kinds=two_kinds)
    cluster = _Cluster(spec)
    was = _labels(stolen, has_two_kinds=two_kinds)
    before = None
    if not from_the_start:
        stolen_facts = _facts(decode, stolen, was)
        before = cluster.look([stolen_facts, *honest])
        _same_segments(alone, cluster, honest)

    for change in changes:
        labels = dict(was)
        for key in change["without"]:
            labels.pop(key, None)
        labels |= change["with"]
        stolen_facts = _facts(decode, stolen, labels)
        after = cluster.look([stolen_facts, *honest])
        if before:
            _same_levels(before, after)
            _same_segments(alone, cluster, honest)
        _same_members(alone, cluster, honest)
        _together(cluster, honest)
    return "taken"


@cache
def _alone(spec: bytes, hostile: int, *, has_two_kinds: bool) -> _Cluster:
    """The cluster without the hostile node.

    Nothing changes in it, so one look is as good as many.
    """
    decode = NodeDecoder(_TRACKED)
    cluster = _Cluster(msgspec.json.decode(spec))
    cluster.look(
        [
            _facts(decode, n, _labels(n, has_two_kinds=has_two_kinds))
            for n in range(16)
            if n != hostile
        ]
    )
    return cluster


def _same_levels(before: Assessment, after: Assessment) -> None:
    was = before.publishable
    now = after.publishable
    held(now == was, f"published were {was}, now {now}")

    gone = set(after.unavailable)
    gone -= set(before.unavailable)
    listed = ", ".join(sorted(gone))
    held(not gone, f"required levels are gone: {listed}")

    counts_before = _counts(before)
    counts_after = _counts(after)
    for level, nodes in counts_before.items():
        count = counts_after[level]
        difference = abs(count - nodes)
        is_near = difference <= 1
        held(is_near, f"{level}: {nodes} nodes, then {count}")


def _counts(assessment: Assessment) -> dict[Level, int]:
    return {row.level: row.nodes for row in assessment.coverage}


def _same_members(alone: _Cluster, cluster: _Cluster, honest: Sequence[NodeFacts]) -> None:
    """Each segment keeps its name and honest nodes when the hostile node is left out."""
    members_now = cluster.members(honest)
    segments = ", ".join(members_now)
    if not segments:
        segments = "none"

    members = alone.members(honest)
    for name, nodes in members.items():
        held(name in members_now, f"segment {name} is gone; there are {segments}")
        now = members_now[name]
        held(now == nodes, f"segment {name} had {nodes}, and has {now}")


def _same_segments(alone: _Cluster, cluster: _Cluster, honest: Sequence[NodeFacts]) -> None:
    """The same, and what schedulers see of it."""
    _same_members(alone, cluster, honest)
    for name, child in alone.children.items():
        before = child.publishable
        now = cluster.children[name].publishable
        held(now == before, f"segment {name}: published would be {before}, and are {now}")


def _together(cluster: _Cluster, honest: Sequence[NodeFacts]) -> None:
    """No honest node is in two segments, and nodes that are alike are in the same one."""
    members = cluster.members(honest)
    segments_of: dict[tuple[str, ...], list[str]] = {}
    for node in honest:
        segments = []
        for name, nodes in members.items():
            if node.name in nodes:
                segments.append(name)

        listed = ", ".join(segments)
        is_in_one_at_most = len(segments) <= 1
        held(is_in_one_at_most, f"{node.name} is in the segments {listed}")
        first = segments_of.setdefault(node.keys, segments)
        held(first == segments, f"nodes that are alike are in different segments: {members}")
