"""Node objects with anything in them, on their way to a status and to what schedulers are told."""

from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from tools.fuzz.material import scalars, spoiled
from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.api import label_keys
from toposcope.api.cluster_topology import Topology, read
from toposcope.api.effective_levels import Absences
from toposcope.controller.assess.assessment import assess
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.status import conditions_of, status_of
from toposcope.controller.status_size import MOST_BYTES
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY, ZONE_KEY
from toposcope.snapshot.decode import Decoder
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.levels import level_problems
from toposcope.topology.node import NodeFacts

_LIKELY: Final = (
    label_keys.GPUS, label_keys.NVLINK_DOMAIN, label_keys.STATE, label_keys.CHASSIS, label_keys.HOSTNAME,
    ZONE_KEY, BLOCK_KEY, RACK_KEY,
    "rack-1", "rack-2", "ok", "degraded", "8", "nvidia.com/gpu", "True", "Ready",
)  # fmt: skip
_TRACKED: Final = frozenset(key for keys in BUILT_IN.keys.values() for key in keys).union(_LIKELY[:8])
_SPEC: Final[dict[str, Any]] = {"metadata": {"name": "cluster", "uid": "u", "generation": 1}, "spec": {}}
_GRACE: Final = 600.0
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _node(number: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"node-{number}",
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "labels": {
                label_keys.GPUS: "8",
                label_keys.STATE: "ok",
                label_keys.NVLINK_DOMAIN: f"c0ffee00-0000-4000-8000-000000000000.{number % 2}",
                label_keys.CHASSIS: f"{number % 2}",
                label_keys.HOSTNAME: f"node-{number}",
                ZONE_KEY: "a",
                BLOCK_KEY: "b1",
                RACK_KEY: f"rack-{number % 2}",
            },
        },
        "spec": {"unschedulable": False},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
    }


_LEVEL_KEYS: Final = tuple(BUILT_IN.domain_of)


def _crowd(kinds: list[int]) -> list[Any]:
    """Nodes of long names, each with levels of its own choice and values as long as may be: all of it wants telling."""
    return [
        {
            "metadata": {
                "name": f"n{number}" + "x" * 240,
                "uid": f"uid-{number}",
                "labels": {label_keys.GPUS: "8", label_keys.STATE: "degraded"}
                | {key: f"{number:x>63}" for place, key in enumerate(_LEVEL_KEYS) if kind >> place & 1},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
        }
        for number, kind in enumerate(kinds)
    ]


def attempt(case: Any) -> Outcome:
    """What is no Node is refused; all others end in a status within its size and in levels that schedulers take."""
    decode, view = NodeDecoder(_TRACKED), Decoder(lambda _name, _bad: True)
    nodes: list[NodeFacts] = []
    outcome: Outcome = "taken"
    for document in case:
        try:
            raw = msgspec.json.encode(document)
        except (UnicodeEncodeError, OverflowError):
            continue  # no JSON, so no server sends it
        try:
            _, _, facts = decode(raw)
        except ValueError as error:
            outcome = refusal(error)
        else:
            nodes.append(facts)
        try:
            view.node(partial(_decoded, raw))
        except ValueError as error:
            outcome = refusal(error)
    _judged({node.name: node for node in nodes}, read(_SPEC))
    return outcome


def _decoded(raw: bytes, kind: type[Any]) -> Any:
    return msgspec.json.decode(raw, type=kind)


def _judged(nodes: dict[str, NodeFacts], topology: Topology) -> None:
    absences = Absences()
    assess(topology, nodes.values(), absences, 0.0, ["rack"])
    assessment = assess(topology, nodes.values(), absences, _GRACE + 1, ["rack"])  # what nodes carry is believed by now
    conditions = conditions_of(topology, assessment, (), anything_served=True)
    status = status_of(topology, assessment, (), _NOW, conditions)
    held(len(msgspec.json.encode(status)) <= MOST_BYTES, "the status is larger than it may be")
    if assessment.publishable is not None:
        held(not level_problems(assessment.publishable), f"schedulers refuse the levels {assessment.publishable}")


NODES: Final = Subject(
    "nodes",
    "any nodes give a status of at most 16 KiB and levels that every scheduler takes",
    st.one_of(
        st.lists(st.one_of(spoiled([_node(n) for n in range(6)], *_LIKELY), scalars()), min_size=1, max_size=6).map(
            lambda spoilt: [*map(_node, range(10, 14)), *spoilt]
        ),
        st.lists(st.integers(0, 2 ** len(_LEVEL_KEYS) - 1), min_size=8, max_size=24).map(_crowd),
    ),
    attempt,
)
