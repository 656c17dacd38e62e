"""One node whose agent's token was stolen: anything that it may write, which is its own keys under `gpu.topology/`.

The other nodes are as before, and so must be what schedulers are told of them.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from controller.assess import Assessment, assess
from controller.effective import Absences
from controller.fit import MOST_BYTES
from controller.spec import Topology, read
from controller.status import conditions_of, status_of
from fuzz.subject import Outcome, Subject, held, refusal
from kube.nodes import NodeDecoder
from simulator.cluster import BLOCK_KEY, RACK_KEY, ZONE_KEY
from topology import keys
from topology.catalogue import BUILT_IN
from topology.levels import Level
from topology.node import NodeFacts

_HOSTILE: Final = "n0"
_FABRIC: Final = "c0ffee00-0000-4000-8000-000000000000"
_TRACKED: Final = frozenset(key for found in BUILT_IN.keys.values() for key in found).union({keys.GPUS, keys.STATE})
_OWN: Final = tuple(
    sorted(value for name, value in vars(keys).items() if name.isupper() and str(value).startswith(keys.PREFIX))
)
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_GRACE: Final = 600.0


def _labels(number: int) -> dict[str, str]:
    return {
        keys.GPUS: "8",
        keys.STATE: "ok",
        keys.NVLINK_DOMAIN: f"{_FABRIC}.{number // 4}",
        keys.CHASSIS: str(number // 4),
        keys.HOSTNAME: f"n{number}",
        ZONE_KEY: "a",
        BLOCK_KEY: f"b{number // 8}",
        RACK_KEY: f"r{number // 4}",
    }


def _facts(decode: NodeDecoder, number: int, labels: Mapping[str, str]) -> NodeFacts:
    node = {
        "metadata": {"name": f"n{number}", "uid": f"u{number}", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
    }
    return decode(msgspec.json.encode(node))[2]


class _Cluster:
    """Sixteen nodes, and one topology that is looked at again and again."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self._absences = Absences()
        self._status: dict[str, Any] = {}
        self._now = 0.0

    def look(self, nodes: Sequence[NodeFacts]) -> Assessment:
        """One look, and another one after the grace period."""
        self._once(nodes)
        return self._once(nodes)

    def _once(self, nodes: Sequence[NodeFacts]) -> Assessment:
        topology = self._topology()
        found = assess(topology, nodes, self._absences, self._now, ["rack", "nvlink-domain"])
        conditions = conditions_of(topology, found, (), anything_served=True)
        self._status = status_of(topology, found, (), _NOW, conditions)
        held(len(msgspec.json.encode(self._status)) <= MOST_BYTES, "the status is larger than it may be")
        for condition in conditions:
            refusal(condition.message)
        self._now += _GRACE + 1
        return found

    def _topology(self) -> Topology:
        metadata = {"name": "cluster", "uid": "u", "generation": 1}
        return read({"metadata": metadata, "spec": self._spec, "status": self._status})


def attempt(case: Any) -> Outcome:
    """What is published, what is required and what is known of other nodes stays as it was."""
    spec, changes = case
    decode = NodeDecoder(_TRACKED)
    honest = [_facts(decode, number, _labels(number)) for number in range(1, 16)]
    cluster = _Cluster(spec)
    before = cluster.look([_facts(decode, 0, _labels(0)), *honest])
    for change in changes:
        labels = {key: value for key, value in _labels(0).items() if key not in change["without"]} | change["with"]
        after = cluster.look([_facts(decode, 0, labels), *honest])
        held(after.publishable == before.publishable, f"published were {before.publishable}, now {after.publishable}")
        held(not after.unavailable, f"required levels are gone: {after.unavailable}")
        for level, was in _counts(before).items():
            held(abs(_counts(after)[level] - was) <= 1, f"{level}: {was} nodes, then {_counts(after)[level]}")
        _same_segments(before, after)
    return "taken"


def _counts(assessment: Assessment) -> dict[Level, int]:
    return {each.level: each.nodes for each in assessment.coverage}


def _same_segments(before: Assessment, after: Assessment) -> None:
    """Segments of others keep name and levels; the hostile node can be one of its own at most."""
    was = {each.name: each.levels for each in before.segments.listed} if before.segments else {}
    now = {each.name: each.levels for each in after.segments.listed} if after.segments else {}
    held(all(now.get(name, levels) == levels for name, levels in was.items()), f"segments were {was}, now {now}")


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
    st.sampled_from(_OWN), st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True).map(keys.PREFIX.__add__)
)

HOSTILE: Final = Subject(
    "hostile",
    "a stolen agent's token changes nothing of what schedulers are told of other nodes",
    st.tuples(
        st.sampled_from(
            [
                {},
                {"segments": "Auto"},
                {
                    "levels": [
                        {"domain": "rack", "key": RACK_KEY},
                        {"domain": "nvlink-domain", "key": keys.NVLINK_DOMAIN},
                    ]
                },
            ]
        ),
        st.lists(
            st.fixed_dictionaries(
                {
                    "without": st.frozensets(
                        st.sampled_from([keys.GPUS, keys.STATE, keys.NVLINK_DOMAIN, keys.CHASSIS])
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
