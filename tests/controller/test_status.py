"""What a status counts, and that it stays within 16 KiB and loses names before it loses numbers."""

from typing import Any

import msgspec
from tests.support.cluster import START, fabric, gpu_node, topology
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.memory import Memory
from toposcope.controller.requirements import Resolved
from toposcope.controller.status import Demand, conditions_of, demand_of, status_of
from toposcope.controller.status_size import MOST_BYTES, fit_to_size
from toposcope.integrations.framework.level_requests import WorkloadRef
from toposcope.integrations.framework.published import Published


def size(status: dict[str, Any]) -> int:
    return len(msgspec.json.encode(status))


def long(text: str, length: int = 63) -> str:
    return text + "x" * (length - len(text))


def test_every_fault_at_once_with_the_longest_names_fits() -> None:
    """Sixteen levels that nest nowhere and lack nodes, split and small domains, refused publications, many sharers."""
    levels = [{"domain": long(f"d{i}-"), "key": long(f"k{i}/")} for i in range(16)]
    nodes = []
    for i in range(600):
        labels: dict[str, str | None] = {
            level["key"]: long(f"v{i % (3 + 2 * j)}-") for j, level in enumerate(levels) if (i + j) % 5
        }
        labels |= {NVLINK_DOMAIN: fabric(i // 9, clique=i % 2), HOSTNAME: long(f"n{i}-")}
        nodes.append(
            gpu_node(long(f"n{i}-", 253), labels, chassis=long(f"c{i // 7}-"), state="degraded" if i % 3 else "ok")
        )
    asked = topology(levels=levels, required=[level["domain"] for level in levels])
    found = assess(asked, Evidence(nodes), Memory())
    published = [Published(f"g{i}/v1", "Topology", "cluster", "Rejected", "y" * 1024) for i in range(4)]
    conditions = conditions_of(
        asked, found, published, anything_served=True, shared={long(f"t{i}-", 253): i for i in range(1, 50)}
    )
    asked_for = {long(f"w{i:02}-"): 10**6 for i in range(64)}
    needs = Demand(asked_for, asked_for)
    status = status_of(asked, found, published, START, conditions, demand=needs)
    assert size(status) <= MOST_BYTES
    assert len(status["levels"]) == 16
    assert {c["type"] for c in status["conditions"]} == {c.type for c in conditions}
    assert status["fabric"]["degradedNodes"] == 400
    assert status["fabric"]["splitDomains"] > 5
    assert status == status_of(asked, found, published, START, conditions, demand=needs)


def test_what_fits_is_left_as_it_is() -> None:
    status = {"levels": [{"domain": "rack", "missingNodes": ["n"]}], "conditions": [{"type": "A", "message": "x" * 99}]}
    assert fit_to_size(status) == status


def test_names_go_before_words_and_the_verdict_never() -> None:
    names = [f"{i}" * 200 for i in range(10)]
    verdict = {"type": "TopologyLevelsAvailable", "message": "v" * 3000}
    other = {"type": "LevelsCovered", "message": "w" * 3000}
    status = {"levels": [{"domain": "rack", "missing": 10, "missingNodes": names}], "conditions": [verdict, other]}
    few = fit_to_size(status, most=7000)
    assert few["levels"][0]["missingNodes"] == names[:2]
    assert few["conditions"] == [verdict, other]
    cut = fit_to_size(status, most=4300)
    assert cut["levels"] == [{"domain": "rack", "missing": 10}]
    assert cut["conditions"][0] == verdict
    assert len(cut["conditions"][1]["message"]) <= 1024
    assert cut["conditions"][1]["message"].endswith(" ... (cut: the status would be too large)")


def test_rebuilds_are_cut_with_the_other_names() -> None:
    """Losing them costs no second Event: a controller remembers what it has reported."""
    chassis = [long(f"c{i}-", 63) for i in range(4)]
    rebuilds = [{"from": f"{i:036}", "to": f"{i + 9:036}", "nodes": 18, "chassis": chassis} for i in range(5)]
    status = {"levels": [], "conditions": [], "fabric": {"splitDomains": 0, "rebuilds": rebuilds}}
    assert fit_to_size(status) == status
    assert fit_to_size(status, most=1500)["fabric"]["rebuilds"] == rebuilds[:2]
    assert fit_to_size(status, most=100)["fabric"] == {"splitDomains": 0}


def segment(name: str, nodes: int, names: int = 3, values: int = 0) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": long("k"), "operator": "In", "values": [long("v")] * values}]}
    return {
        "name": name,
        "nodes": nodes,
        "gpus": 8 * nodes,
        "firstNodes": [long(f"n{i}-", 253) for i in range(names)],
        "levels": [{"domain": "rack", "key": long("l")}],
        "nodeSelector": selector,
    }


def test_a_selector_goes_whole_or_stays_whole() -> None:
    """Half a selector selects other nodes."""
    segments = [segment("a", 5, values=3), segment("b", 4, values=3)]
    status = {"levels": [], "conditions": [], "segments": segments}
    few = fit_to_size(status, most=1800)
    assert [kept["nodeSelector"] for kept in few["segments"]] == [made["nodeSelector"] for made in segments]
    assert [len(kept["firstNodes"]) for kept in few["segments"]] == [1, 1]
    none = fit_to_size(status, most=1200)
    assert none["segments"][0] == {
        "name": "a",
        "nodes": 5,
        "gpus": 40,
        "firstNodes": [long("n0-", 253)],
        "levels": [{"domain": "rack", "key": long("l")}],
    }


def test_segments_without_room_are_summed_up_with_the_others() -> None:
    listed = [segment(f"s{i}", 10 - i, values=250) for i in range(8)]
    others = {"segments": 3, "nodes": 3, "gpus": 6}
    status = {"levels": [], "conditions": [], "segments": listed, "otherSegments": others}
    cut = fit_to_size(status, most=1100)
    assert size(cut) <= 1100
    assert [kept["name"] for kept in cut["segments"]] == ["s0", "s1"]
    nodes = sum(left_out["nodes"] for left_out in listed[2:])
    assert cut["otherSegments"] == {"segments": 9, "nodes": 3 + nodes, "gpus": 6 + 8 * nodes}
    assert "segments" not in fit_to_size(status, most=100)


def test_hints_go_from_the_end_where_nothing_else_is_left() -> None:
    hints = []
    for number in range(16):
        key = long(f"k{number:02}-", 317)
        hints.append({"key": key, "reason": "NearMiss", "message": "m" * 2048})
    cut = fit_to_size({"levels": [], "conditions": [], "hints": hints}, most=8000)
    assert [hint["key"] for hint in cut["hints"]] == [hint["key"] for hint in hints[:8]]


def refs(count: int) -> tuple[WorkloadRef, ...]:
    return tuple(WorkloadRef("example.com/v1", "Job", "ns", f"w{i}", f"uid-{i}") for i in range(count))


BEFORE = {
    "requiredBy": [{"domain": "block", "workloads": 3}, {"domain": "rack", "workloads": 7}],
    "preferredBy": [{"domain": "host", "workloads": 2, "available": True}],
}
ASKED = Resolved(required={"rack": refs(2)}, missing={"row": refs(1)})


def test_missing_levels_count_as_well() -> None:
    assert demand_of(ASKED, {}, listed=True) == Demand({"rack": 2, "row": 1})


def test_a_workload_that_is_not_listed_yet_has_not_stopped_asking() -> None:
    assert demand_of(ASKED, BEFORE, listed=False) == Demand({"block": 3, "rack": 2, "row": 1}, {"host": 2})
    assert demand_of(ASKED, BEFORE, listed=True) == Demand({"rack": 2, "row": 1})


def test_what_the_status_has_no_room_for_is_left_out() -> None:
    one_workload = refs(1)
    many = Resolved(
        required={f"l{number}": one_workload for number in range(60)},
        preferred={f"l{number}": one_workload for number in range(99)},
    )
    required_before = [{"domain": f"old-{number}", "workloads": 1} for number in range(64)]
    demand = demand_of(many, {"requiredBy": required_before}, listed=False)
    assert len(demand.required) == 64
    assert len(demand.preferred) == 64
