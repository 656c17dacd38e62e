"""Slurm's host lists: every name once, in ranges."""

import random

import pytest
from tests.integrations.slurm.reading import expanded
from toposcope.integrations.slurm.hostlist import hostlist

PREFIXES = ["n", "node-", "a1b", "x.y", "", "gpu0"]
WITHOUT_NUMBER = ["login", "head", "a.b"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param("a", "a", id="no-number"),
        pytest.param("", "", id="no-name"),
        pytest.param("n1", "n1", id="single-name"),
        pytest.param("n2 n10 n1 n2", "n[1-2,10]", id="in-order-and-once"),
        pytest.param("n8 n9 n10 n11 n12", "n[8-12]", id="second-digit"),
        pytest.param("n98 n99 n100 n101 n102", "n[98-102]", id="third-digit"),
        pytest.param("n1 n01", "n[1,01]", id="leading-zero"),
        pytest.param("rack-1-gpu-1 rack-1-gpu-2 rack-2-gpu-1", "rack-1-gpu-[1-2],rack-2-gpu-1", id="last-number"),
        pytest.param(
            "ip-10-0-0-1.ec2.internal ip-10-0-0-2.ec2.internal",
            "ip-10-0-0-1.ec2.internal,ip-10-0-0-2.ec2.internal",
            id="number-not-at-the-end",
        ),
    ],
)
def test_hostlist_writes_ranges(names: str, text: str) -> None:
    assert hostlist(names.split()) == text


def test_hostlist_of_padded_names_keeps_the_padding() -> None:
    assert hostlist(f"node{number:03}" for number in range(1, 19)) == "node[001-018]"


def test_hostlist_is_cut_where_slurm_stops_reading() -> None:
    text = hostlist(f"n{number}" for number in range(100_000))
    assert text == "n[0-59999,60000-99999]"


def random_names(seed: int) -> set[str]:
    """Up to 80 names of few prefixes, with numbers of up to 12 digits, some of them padded."""
    rng = random.Random(seed)
    prefix_count = rng.randint(1, len(PREFIXES))
    prefixes = PREFIXES[:prefix_count]

    names = set()
    for _ in range(rng.randint(1, 80)):
        prefix = rng.choice(prefixes)
        largest = rng.choice([12, 120, 10**12])
        number = rng.randint(0, largest)
        digits = rng.choice([1, 1, 2, 3])
        name = prefix + str(number).zfill(digits)
        names.add(name)

    count_without_number = rng.randint(0, len(WITHOUT_NUMBER))
    names.update(rng.sample(WITHOUT_NUMBER, count_without_number))
    return names


@pytest.mark.parametrize("seed", range(300))
def test_hostlist_of_random_names_holds_each_name_once(seed: int) -> None:
    names = random_names(seed)
    assert sorted(expanded(hostlist(names))) == sorted(names)
