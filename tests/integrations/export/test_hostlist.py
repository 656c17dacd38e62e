"""Hostlists: expanded again by a reader of the tests' own, which follows slurm.conf(5)."""

import random
import re

import pytest

from toposcope.integrations.slurm.hostlist import hostlist


def expanded(text: str) -> list[str]:
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        head, bracket, inside = part.partition("[")
        if not bracket:
            names.append(head)
            continue
        for span in inside.rstrip("]").split(","):
            low, dash, high = span.partition("-")
            if not dash:
                names.append(head + low)
            else:
                assert len(high) >= len(low)
                assert int(high) > int(low)
                names += [head + str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"node{i:03}" for i in range(1, 19)], "node[001-018]"),
        (["a"], "a"),
        ([], ""),
        (["n1"], "n1"),
        (["n2", "n10", "n1", "n2"], "n[1-2,10]"),
        ([f"n{i}" for i in range(8, 13)], "n[8-12]"),
        ([f"n{i:02}" for i in range(98, 103)], "n[98-102]"),
        (["n1", "n01"], "n[1,01]"),
        (["rack-1-gpu-1", "rack-1-gpu-2", "rack-2-gpu-1"], "rack-1-gpu-[1-2],rack-2-gpu-1"),
        (["ip-10-0-0-1.ec2.internal", "ip-10-0-0-2.ec2.internal"], "ip-10-0-0-1.ec2.internal,ip-10-0-0-2.ec2.internal"),
    ],
)
def test_ranges(names: list[str], text: str) -> None:
    assert hostlist(names) == text


@pytest.mark.parametrize("seed", range(300))
def test_every_name_comes_back_once(seed: int) -> None:
    rng = random.Random(seed)
    prefixes = ["n", "node-", "a1b", "x.y", "", "gpu0"][: rng.randint(1, 6)]
    names = {
        rng.choice(prefixes) + str(rng.randint(0, rng.choice([12, 120, 10**12]))).zfill(rng.choice([1, 1, 2, 3]))
        for _ in range(rng.randint(1, 80))
    } | set(rng.sample(["login", "head", "a.b"], rng.randint(0, 3)))
    back = expanded(hostlist(names))
    assert sorted(back) == sorted(names)


def test_a_long_row_is_cut_where_slurm_stops_to_read() -> None:
    text = hostlist(f"n{number}" for number in range(100_000))
    assert text == "n[0-59999,60000-99999]"
