"""What a refusal says: one need that is more than what there is, in one unit; or that it is not one resource."""

import random
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.placement.test_search import LEVELS, cluster, group
from tests.support.tables import each_case, each_row
from toposcope.integrations.framework.amounts import amount
from toposcope.integrations.framework.constraints import Group, simplified
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.verdict import Shortage, Verdict
from toposcope.placement.room import Node, Room
from toposcope.placement.search import Search
from toposcope.placement.sentences import advice, answer, left_out, offered, reasoning
from toposcope.placement.shortage import Offer, offers
from toposcope.placement.verdict import fittings, judge

_NUMBER = r"([\d.]+)"
_ONE_NEED = re.compile(
    rf"needs (?:room for )?{_NUMBER} (\S+).*?, (?:largest has|the nodes it may use have) "
    rf"(?:room for )?(?:none|{_NUMBER}(?: (\w+))?)(?: \(\S+\))?$"
)
_POD = re.compile(
    rf"needs {_NUMBER} (\S+).*, and no node that it may use has "
    rf"(?:any|more than {_NUMBER}(?: ([KMG]iB))?)(?: free)?(?: \(\S+\))?$"
)
_COPIES = re.compile(rf"{_NUMBER} \w+ of .* need .*; there (?:is room for|are) {_NUMBER}$")
_IN_ORDER = re.compile(
    rf"there is room for {_NUMBER} of {_NUMBER} (?:pods?|slices?)$|no domain has room for it with its leader$"
)
_NOT_ONE_RESOURCE = re.compile(r"too (?:few|little) [^:]+$|but not where all of its pods fit at once$")


def contradiction(sentence: str) -> str:
    """The sentence, where its numbers fit or it is of no form that is known; empty where it says what lacks."""
    if match := _ONE_NEED.search(sentence) or _POD.search(sentence):
        need, unit, there, other = match.groups()
        same_unit = other in (None, unit)
        return "" if same_unit and float(need) > float(there or 0) else sentence
    if match := _COPIES.search(sentence):
        return "" if float(match[1]) > float(match[2]) else sentence
    if match := _IN_ORDER.search(sentence):
        return "" if match[1] is None or float(match[1]) < float(match[2]) else sentence
    return "" if _NOT_ONE_RESOURCE.search(sentence) else sentence


def check_shortage(verdict: Verdict, nodes: Sequence[Node], *, emptied: bool) -> None:
    """The numbers themselves, added up here once more."""
    shortage = verdict.shortage
    assert shortage
    assert shortage.copies > shortage.room_for
    if shortage.counted != "resource":
        return
    depth = LEVELS.index(shortage.level) + 1 if shortage.level else 0
    sums: dict[tuple[str, ...], int] = {}
    for node in nodes:
        domain = tuple(node.labels[level.key] for level in LEVELS[:depth])
        there = (node.total if emptied else node.free).get(shortage.resource, 0)
        sums[domain] = sums.get(domain, 0) + there
    assert shortage.needs == shortage.group.total()[shortage.resource]
    assert shortage.largest <= max(sums.values())
    assert sum(there // shortage.needs for there in sums.values()) < shortage.copies or shortage.group.anti_affinity


@pytest.mark.regression
@pytest.mark.parametrize("seed", range(60))
def test_no_refusal_contradicts_itself(seed: int) -> None:
    rng = random.Random(seed)
    seen = 0
    for _ in range(40):
        nodes = cluster(rng)
        left, groups = rng.choice((5, 20)), []
        for number in range(rng.randint(1, 3)):
            one, left = group(rng, f"g{number}", left)
            groups.append(one)
        verdict = judge(groups, LEVELS, nodes)
        if verdict.kind in {"full", "never"}:
            seen += 1
            assert not contradiction(answer(verdict)), (answer(verdict), groups, nodes)
            check_shortage(verdict, nodes, emptied=verdict.kind == "never")
    assert seen


class Sentence(msgspec.Struct, forbid_unknown_fields=True):
    """Groups on nodes, and the answer; what is None the row is not about."""

    case: str
    answer: str
    nodes: list[Node]
    groups: list[Group]
    partial: bool = False
    said: list[str] | None = None
    """What helps, the reasoning, and who was left out."""
    placed: list[tuple[str, Path, dict[str, int]]] | None = None
    """What a search finds at once, without trying everything."""
    short: list[tuple[str, ...]] | None = None
    """What each remedy does, and of what there is too little there."""
    numbers: tuple[str | None, str, str, int, int, Path, int, int] | None = None
    """Those of the shortage, as JSON has them, after its level."""
    offers: list[str] | None = None
    """What the domains of the level that is short have, of what is short."""
    fittings: tuple[bool, list[tuple[Path, int, int]]] | None = None
    """Whether they are exact; the domains with room, their nodes and what is free."""


@pytest.mark.regression
@each_row("sentences.yaml", Sentence, ids=lambda row: row.case)
def test_what_is_said_of_groups(row: Sentence) -> None:
    verdict, groups = judge(row.groups, LEVELS, row.nodes, partial=row.partial), simplified(row.groups)
    room, short = Room(LEVELS, row.nodes, groups, partial=row.partial), verdict.shortage
    assert answer(verdict) == row.answer
    assert verdict.kind in {"fits", "unclear"} or not contradiction(row.answer)
    assert row.said is None or [*advice(verdict), *reasoning(verdict), *left_out(verdict)] == row.said
    assert row.short is None or [(remedy.act, *remedy.short) for remedy in verdict.remedies] == row.short
    if row.placed is not None:
        assert Search(room).place(groups) == (verdict.placed if verdict.kind == "fits" else None)
        assert [(copy.group.name, copy.domain, dict(copy.nodes)) for copy in verdict.placed] == row.placed
    if row.numbers:
        assert short
        numbers = (short.counted, short.resource, short.needs, short.largest, short.best, short.copies, short.room_for)
        assert (short.level and short.level.domain, *numbers) == row.numbers
    if row.offers is not None:
        assert short
        assert short.level
        assert [offered(offer, short) for offer in offers(room, short.group, short.level, short.resource)] == row.offers
    if row.fittings:
        found = fittings(row.groups, LEVELS, row.nodes, partial=row.partial)
        assert found
        domains = [(fitting.domain, fitting.nodes, fitting.free) for fitting in found.found]
        assert (found.group.required, found.exact, domains) == (found.level, *row.fittings)


@pytest.mark.regression
@each_case("tables/placement.yaml")
def test_amounts_are_in_the_units_of_kubectl(resource: str, count: int, text: str) -> None:
    assert amount(resource, count) == text


@each_case("tables/placement.yaml")
def test_what_one_domain_offers(offer: Any, shortage: Any, text: str) -> None:
    assert offered(msgspec.convert(offer, Offer), msgspec.convert(shortage, Shortage)) == text


@each_case("tables/placement.yaml")
def test_what_is_said_of_a_verdict(verdict: Any, said: list[str]) -> None:
    found = msgspec.convert(verdict, Verdict)
    assert [answer(found), *advice(found), *reasoning(found)] == said
