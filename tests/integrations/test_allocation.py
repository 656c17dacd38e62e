"""Claims on one node, held to an oracle that tries every choice of every pod."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from tests.support.slices import attributes, claim, device_class, request, slice_of
from tests.support.tables import each_case
from toposcope.integrations.dra.allocation import UNKNOWN, Claims, Copies, copies
from toposcope.integrations.dra.devices import Device, inventory
from toposcope.integrations.dra.selectors import matches
from toposcope.integrations.framework.constraints import ClaimRef

DOMAIN = 'device.attributes["d"]'
SELECTORS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "true == true": lambda _: True,
    f'{DOMAIN}.kind == "gpu"': lambda facts: facts["kind"] == "gpu",
    f'{DOMAIN}.kind != "gpu"': lambda facts: facts["kind"] != "gpu",
    f"{DOMAIN}.size == 2 || {DOMAIN}.root in [1, 3]": lambda facts: facts["size"] == 2 or facts["root"] in (1, 3),
    f'device.driver == "d" && !({DOMAIN}.root == 1)': lambda facts: facts["root"] != 1,
}
"""What a selector says, and what it means."""


@each_case("tables/integrations.yaml")
def test_what_a_selector_says(expression: str, answer: bool | None) -> None:
    facts: dict[str, Any] = {"type": "gpu", "count": 3, "d.e/far": 1, "whole": True}
    device = Device("gpu.nvidia.com", "p", "gpu-0", facts)
    assert matches(expression, device) is answer


Facts = tuple[str, dict[str, Any]]


def node(rng: random.Random) -> list[Facts]:
    """A few devices; some lack the attribute that constraints compare."""

    def device() -> dict[str, Any]:
        facts = {"kind": rng.choice(("gpu", "nic")), "size": rng.randint(1, 2), "root": rng.randint(1, 3)}
        return facts | ({"numa": rng.randint(0, 1)} if rng.random() < 0.8 else {})

    return [(f"d{number}", device()) for number in range(rng.randint(1, 6))]


def asked(rng: random.Random) -> tuple[list[Any], list[Any]]:
    """Requests and constraints."""
    some = rng.choice((list(SELECTORS), [*SELECTORS][1:3]))
    requests = [(f"r{n}", rng.randint(1, 2), rng.choice(some)) for n in range(rng.randint(1, 2))]
    names = [name for name, _, _ in requests]
    over = [rng.sample(names, rng.randint(0, len(names))) for _ in range(rng.choice((0, 1, 1, 2)))]
    return requests, [(rng.choice(("d/root", "d/numa")), some) for some in over]


def choices(devices: tuple[Facts, ...], requests: list[Any], constraints: list[Any]) -> Iterator[frozenset[str]]:
    """The devices that one pod may get, in every way."""

    def chosen(left: list[Any], free: tuple[Facts, ...]) -> Iterator[list[tuple[str, Facts]]]:
        if not left:
            yield []
            return
        name, count, selector = left[0]
        for some in combinations([device for device in free if SELECTORS[selector](device[1])], count):
            for rest in chosen(left[1:], tuple(device for device in free if device not in some)):
                yield [*((name, device) for device in some), *rest]

    for way in chosen(requests, devices):
        values = [{repr(f.get(a[2:])) for name, (_, f) in way if not over or name in over} for a, over in constraints]
        if all(len(value) <= 1 and value != {"None"} for value in values):
            yield frozenset(name for _, (name, _) in way)


def bounds(devices: list[Facts], requests: list[Any], constraints: list[Any]) -> tuple[int, int]:
    """With how few pods it may end, and how many there may be at most."""

    @cache
    def after(free: frozenset[str]) -> tuple[int, int]:
        there = tuple(device for device in devices if device[0] in free)
        ends = [after(free - some) for some in set(choices(there, requests, constraints))]
        return (1 + min(low for low, _ in ends), 1 + max(high for _, high in ends)) if ends else (0, 0)

    return after(frozenset(name for name, _ in devices))


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_leads_to_fewer_or_more(seed: int) -> None:
    rng = random.Random(seed)
    exact = 0
    for _ in range(25):
        devices, (requests, constraints) = node(rng), asked(rng)
        offered = [{"name": name, "attributes": attributes(**facts)} for name, facts in devices]
        spec = claim(
            "c",
            *(request(name, "any", count, selector) for name, count, selector in requests),
            constraints=tuple({"matchAttribute": a, "requests": over} for a, over in constraints),
        )
        claims = Claims.of([device_class("any", 'device.driver == "d"'), spec])
        found = claims.read(ClaimRef("ResourceClaim", "train", "c"), alone=True)
        there = inventory([slice_of("n", "d", offered)]).nodes["n"]
        least, most, error = copies([found], there, frozenset())
        low, high = bounds(devices, requests, constraints)
        assert not error
        assert min(low, least) == least, (devices, requests, constraints)
        assert max(high, most) == most, (devices, requests, constraints)
        assert (least > 0) == (low > 0)
        exact += least == most
    assert exact > 12


@each_case("tables/integrations.yaml")
def test_what_else_decides(device: dict[str, Any], slices: int, found: dict[str, Any] | None) -> None:
    """Null: not known."""
    plain = {"name": "a", "attributes": attributes(kind="gpu")}
    one = slice_of("n", "d", [plain, {**plain, "name": "b", **device}])
    one["spec"]["pool"]["resourceSliceCount"] = slices
    asked = claim("c", request("r", "any", 1, f'{DOMAIN}.kind == "gpu"'))
    claims = Claims.of([device_class("any", 'device.driver == "d"'), asked])
    spec = claims.read(ClaimRef("ResourceClaim", "train", "c"), alone=True)
    assert copies([spec], inventory([one]).nodes["n"], frozenset()) == (Copies(**found) if found else UNKNOWN)
