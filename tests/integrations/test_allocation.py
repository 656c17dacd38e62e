"""Claims on one node, held to an oracle that tries every choice of every pod."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from tests.support.slices import attributes, claim, device_class, request, slice_of
from toposcope.integrations.dra.allocation import UNKNOWN, Claim, Claims, Copies, copies
from toposcope.integrations.dra.devices import DraDevice, inventory
from toposcope.integrations.dra.selectors import matches
from toposcope.integrations.framework.constraints import ClaimRef

NVIDIA = 'device.attributes["gpu.nvidia.com"]'
RDMA = 'device.attributes["dra.net"].rdma'
GPU = DraDevice("gpu.nvidia.com", "p", "gpu-0", {"type": "gpu", "count": 3, "d.e/far": 1, "whole": True})


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'gpu.nvidia.com'",
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
        f'{RDMA} || device.driver == "gpu.nvidia.com"',
        f"{NVIDIA}.whole",
        f"!{NVIDIA}.whole == false",
        f'{NVIDIA}["type"] in ["mig", "gpu"]',
        f'"type" in {NVIDIA}',
        'has(device.attributes["d.e"].far) && device.attributes["d.e"].far == 1',
    ],
)
def test_selector_takes_the_device(expression: str) -> None:
    assert matches(expression, GPU) is True


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "dra.net" && {RDMA}',
        f"!{NVIDIA}.whole",
        '"type" in device.attributes["dra.net"]',
        f'{NVIDIA}.count == "3"',
        f"{NVIDIA}.count != 3 || false",
    ],
)
def test_selector_does_not_take_the_device(expression: str) -> None:
    assert matches(expression, GPU) is False


@pytest.mark.parametrize(
    "expression",
    [
        RDMA,
        f"{RDMA} && true",
        f"false || {RDMA}",
        f"{NVIDIA}.count > 2",
        f'{NVIDIA}.type.matches("g.*")',
        'device.driver == "a" ? true : false',
        "device.driver",
        "not true",
        "(",
    ],
)
def test_selector_that_is_not_understood_says_nothing(expression: str) -> None:
    assert matches(expression, GPU) is None


DOMAIN = 'device.attributes["d"]'
Facts = dict[str, Any]
SELECTORS: dict[str, Callable[[Facts], bool]] = {
    "true == true": lambda _: True,
    f'{DOMAIN}.kind == "gpu"': lambda facts: facts["kind"] == "gpu",
    f'{DOMAIN}.kind != "gpu"': lambda facts: facts["kind"] != "gpu",
    f"{DOMAIN}.size == 2 || {DOMAIN}.root in [1, 3]": lambda facts: facts["size"] == 2 or facts["root"] in (1, 3),
    f'device.driver == "d" && !({DOMAIN}.root == 1)': lambda facts: facts["root"] != 1,
}
"""What a selector says, and what it means."""


@dataclass(frozen=True)
class Offered:
    """A device, as the oracle sees it."""

    name: str
    facts: tuple[tuple[str, Any], ...]

    def has(self, selector: str) -> bool:
        return SELECTORS[selector](dict(self.facts))

    def value(self, attribute: str) -> Any:
        return dict(self.facts).get(attribute.removeprefix("d/"))


@dataclass(frozen=True)
class Wanted:
    """A request for so many devices."""

    name: str
    count: int
    selector: str


@dataclass(frozen=True)
class SameValue:
    """A constraint: devices of these requests (none: of all) have the same value of the attribute."""

    attribute: str
    requests: tuple[str, ...]

    def holds(self, choice: Sequence[tuple[Wanted, Offered]]) -> bool:
        values = set()
        for wanted, device in choice:
            if not self.requests or wanted.name in self.requests:
                values.add(device.value(self.attribute))
        return len(values) <= 1 and None not in values


def random_devices(rng: random.Random) -> list[Offered]:
    """A few devices; some lack the attribute that constraints compare."""
    devices = []
    for number in range(rng.randint(1, 6)):
        facts = {"kind": rng.choice(("gpu", "nic")), "size": rng.randint(1, 2), "root": rng.randint(1, 3)}
        if rng.random() < 0.8:
            facts["numa"] = rng.randint(0, 1)
        devices.append(Offered(f"d{number}", tuple(facts.items())))
    return devices


def random_requests(rng: random.Random) -> list[Wanted]:
    selectors = rng.choice((list(SELECTORS), list(SELECTORS)[1:3]))
    requests = []
    for number in range(rng.randint(1, 2)):
        requests.append(Wanted(f"r{number}", rng.randint(1, 2), rng.choice(selectors)))
    return requests


def random_constraints(rng: random.Random, requests: list[Wanted]) -> list[SameValue]:
    names = [wanted.name for wanted in requests]
    constraints = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        over = rng.sample(names, rng.randint(0, len(names)))
        constraints.append(SameValue(rng.choice(("d/root", "d/numa")), tuple(over)))
    return constraints


def choices(
    devices: tuple[Offered, ...], requests: list[Wanted], constraints: list[SameValue]
) -> Iterator[frozenset[str]]:
    """The devices that one pod may get, in every way."""
    for choice in unconstrained_choices(devices, requests):
        if all(constraint.holds(choice) for constraint in constraints):
            yield frozenset(device.name for _, device in choice)


def unconstrained_choices(free: tuple[Offered, ...], requests: list[Wanted]) -> Iterator[list[tuple[Wanted, Offered]]]:
    if not requests:
        yield []
        return
    wanted, *others = requests
    suitable = [device for device in free if device.has(wanted.selector)]
    for taken in combinations(suitable, wanted.count):
        left = tuple(device for device in free if device not in taken)
        for rest in unconstrained_choices(left, others):
            yield [*((wanted, device) for device in taken), *rest]


def bounds(devices: list[Offered], requests: list[Wanted], constraints: list[SameValue]) -> tuple[int, int]:
    """With how few pods it may end, and how many there may be at most."""

    @cache
    def after(free: frozenset[str]) -> tuple[int, int]:
        there = tuple(device for device in devices if device.name in free)
        lows, highs = [], []
        for taken in set(choices(there, requests, constraints)):
            low, high = after(free - taken)
            lows.append(1 + low)
            highs.append(1 + high)
        return min(lows, default=0), max(highs, default=0)

    return after(frozenset(device.name for device in devices))


def read_claim(*objects: Any) -> Claim:
    """The claim `c` of these objects, and of a class of all devices."""
    claims = Claims.of([device_class("any", 'device.driver == "d"'), *objects])
    return claims.read(ClaimRef("ResourceClaim", "train", "c"), is_alone=True)


def claim_of(requests: list[Wanted], constraints: list[SameValue]) -> Any:
    written = [request(wanted.name, "any", wanted.count, wanted.selector) for wanted in requests]
    same = [{"matchAttribute": each.attribute, "requests": list(each.requests)} for each in constraints]
    return claim("c", *written, constraints=tuple(same))


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_leads_to_fewer_or_more_pods(seed: int) -> None:
    rng = random.Random(seed)
    exact = 0
    for _ in range(25):
        devices, requests = random_devices(rng), random_requests(rng)
        constraints = random_constraints(rng, requests)
        offered = [{"name": device.name, "attributes": attributes(**dict(device.facts))} for device in devices]
        node = inventory([slice_of("n", "d", offered)]).nodes["n"]

        least, most, error = copies([read_claim(claim_of(requests, constraints))], node, frozenset())

        low, high = bounds(devices, requests, constraints)
        assert not error
        assert least <= low, (devices, requests, constraints)
        assert most >= high, (devices, requests, constraints)
        assert (least > 0) == (low > 0)
        exact += least == most
    assert exact > 12


def copies_beside(device: dict[str, Any], *, slices: int = 1) -> Copies:
    """How many pods get one GPU of a plain one and another device."""
    plain = {"name": "a", "attributes": attributes(kind="gpu")}
    pool = slice_of("n", "d", [plain, {**plain, "name": "b", **device}])
    pool["spec"]["pool"]["resourceSliceCount"] = slices
    spec = read_claim(claim("c", request("r", "any", 1, f'{DOMAIN}.kind == "gpu"')))
    return copies([spec], inventory([pool]).nodes["n"], frozenset())


def test_two_devices_are_for_two_pods() -> None:
    assert copies_beside({}) == Copies(least=2, most=2)


@pytest.mark.parametrize(
    "attributes", [pytest.param({}, id="missing"), pytest.param({"kind": {"version": "1.0.0"}}, id="of-another-type")]
)
def test_attribute_that_cannot_be_compared_is_an_error(attributes: dict[str, Any]) -> None:
    assert copies_beside({"attributes": attributes}) == Copies(least=0, most=2, has_error=True)


def test_tainted_device_is_for_no_pod() -> None:
    assert copies_beside({"taints": [{"key": "sick", "effect": "NoExecute"}]}) == Copies(least=1, most=1)


def test_taint_without_effect_does_not_count() -> None:
    assert copies_beside({"taints": [{"key": "sick", "effect": "None"}]}) == Copies(least=2, most=2)


@pytest.mark.parametrize(
    "device",
    [
        pytest.param({"consumesCounters": [{"counterSet": "s"}]}, id="counters"),
        pytest.param({"allowMultipleAllocations": True}, id="shared"),
    ],
)
def test_device_that_is_not_for_one_pod_leaves_the_answer_open(device: dict[str, Any]) -> None:
    assert copies_beside(device) == UNKNOWN


def test_pool_with_missing_slices_leaves_the_answer_open() -> None:
    assert copies_beside({}, slices=2) == UNKNOWN


TAINTED = {"taints": [{"key": "sick", "effect": "NoSchedule"}]}
TOLERATING = {"key": "sick", "operator": "Exists"}


@pytest.mark.parametrize(
    ("tolerated", "expected"),
    [
        pytest.param(TOLERATING, Copies(2, 2), id="the-taint"),
        pytest.param({**TOLERATING, "key": "old"}, Copies(1, 1), id="another"),
    ],
)
def test_tainted_device_is_for_pods_that_tolerate_it(tolerated: dict[str, Any], expected: Copies) -> None:
    wanted = request("r", "any")
    wanted["exactly"]["tolerations"] = [tolerated]
    plain = {"name": "a", "attributes": attributes(kind="gpu")}
    pool = slice_of("n", "d", [plain, {**plain, "name": "b", **TAINTED}])
    assert copies([read_claim(claim("c", wanted))], inventory([pool]).nodes["n"], frozenset()) == expected


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param({"adminAccess": True}, "request r has adminAccess, which is not supported here", id="field"),
        pytest.param({"allocationMode": "All"}, "request r has allocationMode, which is not supported here", id="mode"),
        pytest.param({"deviceClassName": "other"}, "DeviceClass other is unknown", id="class"),
        pytest.param({"deviceClassName": ""}, "DeviceClass (none) is unknown", id="no-class"),
    ],
)
def test_request_that_is_not_supported_is_unclear(changed: dict[str, Any], why: str) -> None:
    wanted = request("r", "any")
    wanted["exactly"].update(changed)
    assert read_claim(claim("c", wanted)) == Claim(unclear=why)


def test_claim_with_an_unsupported_constraint_is_unclear() -> None:
    distinct = {"distinctAttribute": "d/root", "requests": ["r"]}
    assert read_claim(claim("c", request("r", "any"), constraints=(distinct,))) == Claim(
        unclear="it has a constraint other than matchAttribute, which is not supported here"
    )


def test_claim_with_an_unsupported_field_is_unclear() -> None:
    written = claim("c", request("r", "any"))
    written["spec"]["devices"]["sharing"] = {"mode": "x"}
    assert read_claim(written) == Claim(unclear="the claim has sharing, which is not supported here")


def test_pods_with_an_unclear_claim_are_unknown() -> None:
    pool = slice_of("n", "d", [{"name": "a", "attributes": attributes(kind="gpu")}])
    assert copies([Claim(unclear="it is unknown")], inventory([pool]).nodes["n"], frozenset()) == UNKNOWN


def test_search_that_runs_out_of_steps_leaves_the_answer_open() -> None:
    devices = []
    for number in range(40):
        devices.append({"name": f"d{number}", "attributes": attributes(kind="gpu", root=number, numa=number % 2)})
    constraints = (
        {"matchAttribute": "d/numa", "requests": ["first", "second"]},
        {"matchAttribute": "d/root", "requests": ["second", "third"]},
    )
    wanted = [request("first", "any", 12), request("second", "any"), request("third", "any")]
    spec = read_claim(claim("c", *wanted, constraints=constraints))
    node = inventory([slice_of("n", "d", devices)]).nodes["n"]
    assert copies([spec], node, frozenset()) == Copies(least=0, most=3)
