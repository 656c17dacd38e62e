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
from toposcope.hierarchy.node import NodeFacts
from toposcope.integrations.framework.level_requests import WorkloadRef
from toposcope.integrations.framework.published import Published


def size(status: dict[str, Any]) -> int:
    return len(msgspec.json.encode(status))


def long(text: str, length: int = 63) -> str:
    return text + "x" * (length - len(text))


def faulty_levels() -> list[dict[str, str]]:
    levels = []
    for i in range(16):
        levels.append({"domain": long(f"d{i}-"), "key": long(f"k{i}/")})
    return levels


def faulty_node(number: int, levels: list[dict[str, str]]) -> NodeFacts:
    """A node that lacks every fifth level; a half of its fabric, and two of three nodes are degraded."""
    name = f"n{number}-"
    labels: dict[str, str | None] = {}
    for j, level in enumerate(levels):
        if (number + j) % 5:
            labels[level["key"]] = long(f"v{number % (3 + 2 * j)}-")
    labels[NVLINK_DOMAIN] = fabric(number // 9, clique=number % 2)
    labels[HOSTNAME] = long(name)
    return gpu_node(
        long(name, 253),
        labels,
        chassis=long(f"c{number // 7}-"),
        state="degraded" if number % 3 else "ok",
    )


def refused(number: int) -> Published:
    return Published(
        f"g{number}/v1",
        "Topology",
        "cluster",
        "Rejected",
        "y" * 1024,
    )


def test_every_fault_at_once_with_the_longest_names_fits() -> None:
    """Sixteen levels that nest nowhere and lack nodes, split and small domains, refused publications, many sharers."""
    levels = faulty_levels()
    nodes = [faulty_node(i, levels) for i in range(600)]
    domains = [level["domain"] for level in levels]
    asked = topology(levels=levels, required=domains)
    found = assess(asked, Evidence(nodes), Memory())
    published = [refused(i) for i in range(4)]
    shared = {}
    for i in range(1, 50):
        shared[long(f"t{i}-", 253)] = i
    conditions = conditions_of(
        asked,
        found,
        published,
        is_any_served=True,
        shared=shared,
    )
    asked_for = {}
    for i in range(64):
        asked_for[long(f"w{i:02}-")] = 10**6
    needs = Demand(asked_for, asked_for)
    status = status_of(asked, found, published, START, conditions, demand=needs)
    assert size(status) <= MOST_BYTES
    assert len(status["levels"]) == 16
    kept = {condition["type"] for condition in status["conditions"]}
    assert kept == {condition.type for condition in conditions}
    assert status["fabric"]["degradedNodes"] == 400
    assert status["fabric"]["splitDomains"] > 5
    again = status_of(asked, found, published, START, conditions, demand=needs)
    assert status == again


def test_what_fits_is_left_as_it_is() -> None:
    status = {
        "levels": [{"domain": "rack", "missingNodes": ["n"]}],
        "conditions": [{"type": "A", "message": "x" * 99}],
    }
    assert fit_to_size(status) == status


def test_names_go_before_words_and_the_verdict_never() -> None:
    names = [f"{i}" * 200 for i in range(10)]
    verdict = {"type": "TopologyLevelsAvailable", "message": "v" * 3000}
    other = {"type": "LevelsCovered", "message": "w" * 3000}
    rack = {"domain": "rack", "missing": 10, "missingNodes": names}
    status = {"levels": [rack], "conditions": [verdict, other]}
    few = fit_to_size(status, most=7000)
    assert few["levels"][0]["missingNodes"] == names[:2]
    assert few["conditions"] == [verdict, other]
    cut = fit_to_size(status, most=4300)
    assert cut["levels"] == [{"domain": "rack", "missing": 10}]
    kept_verdict, cut_other = cut["conditions"]
    assert kept_verdict == verdict
    assert len(cut_other["message"]) <= 1024
    assert cut_other["message"].endswith(" ... (cut: the status would be too large)")


def test_rebuilds_are_cut_with_the_other_names() -> None:
    """Losing them costs no second Event: a controller remembers what it has reported."""
    chassis = [long(f"c{number}-", 63) for number in range(4)]
    rebuilds = []
    for number in range(5):
        rebuilds.append(
            {
                "from": f"{number:036}",
                "to": f"{number + 9:036}",
                "nodes": 18,
                "chassis": chassis,
            }
        )
    status = {
        "levels": [],
        "conditions": [],
        "fabric": {
            "splitDomains": 0,
            "rebuilds": rebuilds,
        },
    }
    assert fit_to_size(status) == status
    some = fit_to_size(status, most=1500)
    assert some["fabric"]["rebuilds"] == rebuilds[:2]
    none = fit_to_size(status, most=100)
    assert none["fabric"] == {"splitDomains": 0}


def segment(name: str, nodes: int, names: int = 3, values: int = 0) -> dict[str, Any]:
    expression = {
        "key": long("k"),
        "operator": "In",
        "values": [long("v")] * values,
    }
    return {
        "name": name,
        "nodes": nodes,
        "gpus": 8 * nodes,
        "firstNodes": [long(f"n{i}-", 253) for i in range(names)],
        "levels": [{"domain": "rack", "key": long("l")}],
        "nodeSelector": {"matchExpressions": [expression]},
    }


def test_a_selector_goes_whole_or_stays_whole() -> None:
    """Half a selector selects other nodes."""
    first = segment("a", 5, values=3)
    second = segment("b", 4, values=3)
    status = {"levels": [], "conditions": [], "segments": [first, second]}
    few = fit_to_size(status, most=1800)
    kept_first, kept_second = few["segments"]
    assert kept_first["nodeSelector"] == first["nodeSelector"]
    assert kept_second["nodeSelector"] == second["nodeSelector"]
    assert len(kept_first["firstNodes"]) == 1
    assert len(kept_second["firstNodes"]) == 1
    none = fit_to_size(status, most=1200)
    assert none["segments"][0] == {
        "name": "a",
        "nodes": 5,
        "gpus": 40,
        "firstNodes": [long("n0-", 253)],
        "levels": [{"domain": "rack", "key": long("l")}],
    }


def test_segments_without_room_are_summed_up_with_the_others() -> None:
    listed = []
    for i in range(8):
        listed.append(segment(f"s{i}", 10 - i, values=250))
    status = {
        "levels": [],
        "conditions": [],
        "segments": listed,
        "otherSegments": {"segments": 3, "nodes": 3, "gpus": 6},
    }
    cut = fit_to_size(status, most=1100)
    assert size(cut) <= 1100
    assert [kept["name"] for kept in cut["segments"]] == ["s0", "s1"]
    nodes = 0
    for left_out in listed[2:]:
        nodes += left_out["nodes"]
    assert cut["otherSegments"] == {
        "segments": 9,
        "nodes": 3 + nodes,
        "gpus": 6 + 8 * nodes,
    }
    assert "segments" not in fit_to_size(status, most=100)


def test_hints_go_from_the_end_where_nothing_else_is_left() -> None:
    hints = []
    for number in range(16):
        key = long(f"k{number:02}-", 317)
        hints.append({"key": key, "reason": "NearMiss", "message": "m" * 2048})
    status = {"levels": [], "conditions": [], "hints": hints}
    cut = fit_to_size(status, most=8000)
    keys = [hint["key"] for hint in hints[:8]]
    assert [hint["key"] for hint in cut["hints"]] == keys


def refs(count: int) -> tuple[WorkloadRef, ...]:
    workloads = []
    for i in range(count):
        workloads.append(WorkloadRef("example.com/v1", "Job", "ns", f"w{i}", f"uid-{i}"))
    return tuple(workloads)


BEFORE = {
    "requiredBy": [{"domain": "block", "workloads": 3}, {"domain": "rack", "workloads": 7}],
    "preferredBy": [{"domain": "host", "workloads": 2, "available": True}],
}
ASKED = Resolved(required={"rack": refs(2)}, missing={"row": refs(1)})


def test_missing_levels_count_as_well() -> None:
    assert demand_of(ASKED, {}, is_listed=True) == Demand({"rack": 2, "row": 1})


def test_a_workload_that_is_not_listed_yet_has_not_stopped_asking() -> None:
    assert demand_of(
        ASKED,
        BEFORE,
        is_listed=False,
    ) == Demand(
        {"block": 3, "rack": 2, "row": 1},
        {"host": 2},
    )
    assert demand_of(
        ASKED,
        BEFORE,
        is_listed=True,
    ) == Demand({"rack": 2, "row": 1})


def test_what_the_status_has_no_room_for_is_left_out() -> None:
    one_workload = refs(1)
    many = Resolved(
        required={f"l{number}": one_workload for number in range(60)},
        preferred={f"l{number}": one_workload for number in range(99)},
    )
    required_before = []
    for number in range(64):
        required_before.append({"domain": f"old-{number}", "workloads": 1})
    before = {"requiredBy": required_before}
    demand = demand_of(many, before, is_listed=False)
    assert len(demand.required) == 64
    assert len(demand.preferred) == 64
