"""A status stays within 16 KiB whatever happens, and loses names before it loses numbers."""

from typing import Any

import msgspec

from controller.assess import assess
from controller.demand import Demand
from controller.effective import Absences
from controller.fit import MOST_BYTES, fitted
from controller.publishers.target import Published
from controller.status import conditions_of, status_of
from tests.support.clock import START
from tests.support.cluster import fabric, gpu_node, topology
from topology.keys import HOSTNAME, NVLINK_DOMAIN


def size(status: dict[str, Any]) -> int:
    return len(msgspec.json.encode(status))


def long(text: str, length: int = 63) -> str:
    return text + "x" * (length - len(text))


def test_everything_amiss_at_once_with_the_longest_names_fits() -> None:
    """Sixteen levels that nest nowhere and lack nodes, split and small domains, refused publications, many sharers."""
    levels = [{"domain": long(f"d{i}-"), "key": long(f"k{i}/")} for i in range(16)]
    nodes = []
    for i in range(600):
        labels: dict[str, str | None] = {
            each["key"]: long(f"v{i % (3 + 2 * j)}-") for j, each in enumerate(levels) if (i + j) % 5
        }
        labels |= {NVLINK_DOMAIN: fabric(i // 9, clique=i % 2), HOSTNAME: long(f"n{i}-")}
        nodes.append(
            gpu_node(long(f"n{i}-", 253), labels, chassis=long(f"c{i // 7}-"), state="degraded" if i % 3 else "ok")
        )
    asked = topology(levels=levels, required=[each["domain"] for each in levels])
    found = assess(asked, nodes, Absences(), 0.0)
    published = [Published(f"g{i}/v1", "Topology", "cluster", "Rejected", "y" * 1024) for i in range(4)]
    conditions = conditions_of(
        asked, found, published, anything_served=True, shared={long(f"t{i}-", 253): i for i in range(1, 50)}
    )
    asked_for = {long(f"w{i:02}-"): 10**6 for i in range(64)}
    needs = Demand(asked_for, asked_for)
    status = status_of(asked, found, published, START, conditions, needs)
    assert size(status) <= MOST_BYTES
    assert len(status["levels"]) == 16
    assert {c["type"] for c in status["conditions"]} == {c.type for c in conditions}
    assert status["fabric"]["degradedNodes"] == 400
    assert status["fabric"]["splitDomains"] > 5
    assert status == status_of(asked, found, published, START, conditions, needs)


def test_what_fits_is_left_as_it_is() -> None:
    status = {
        "levels": [{"domain": "rack", "missingNodes": ["n1"]}],
        "conditions": [{"type": "A", "message": "x" * 999}],
    }
    assert fitted(status) == status


def test_names_go_before_words_and_the_verdict_never() -> None:
    names = [f"{i}" * 200 for i in range(10)]
    verdict = {"type": "TopologyLevelsAvailable", "message": "v" * 3000}
    other = {"type": "LevelsCovered", "message": "w" * 3000}
    status = {"levels": [{"domain": "rack", "missing": 10, "missingNodes": names}], "conditions": [verdict, other]}
    few = fitted(status, most=7000)
    assert few["levels"][0]["missingNodes"] == names[:2]
    assert few["conditions"] == [verdict, other]
    cut = fitted(status, most=4300)
    assert cut["levels"] == [{"domain": "rack", "missing": 10}]
    assert cut["conditions"][0] == verdict
    assert len(cut["conditions"][1]["message"]) <= 1024
    assert cut["conditions"][1]["message"].endswith(" ... (cut: the status would be too large)")
