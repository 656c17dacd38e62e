"""Reads Slurm's topology files as Slurm does, for tests of what is written."""

import re

MAX_NAME_LENGTH = 64


def expanded(hostlist: str) -> list[str]:
    """The names of a host list such as `n[01-03],login`."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", hostlist):
        prefix, bracket, ranges = part.partition("[")
        if not bracket:
            names.append(prefix)
            continue
        for text in ranges.rstrip("]").split(","):
            names += [prefix + number for number in _numbers(text)]
    return names


def _numbers(text: str) -> list[str]:
    """The numbers of one range, padded as its first."""
    low, dash, high = text.partition("-")
    if not dash:
        return [low]
    digits = len(low)
    first = int(low)
    last = int(high)
    assert len(high) >= digits, f"range {text}: the end has fewer digits"
    assert last > first, f"range {text}: the end is not above the start"

    numbers = []
    for number in range(first, last + 1):
        numbers.append(str(number).zfill(digits))
    return numbers


def switches_of(lines: list[str]) -> dict[str, dict[str, list[str]]]:
    """The `Nodes` and `Switches` of each switch of a topology.conf."""
    switches: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        fields = {}
        for word in line.split(" "):
            field, _, value = word.partition("=")
            fields[field] = value

        name = fields.pop("SwitchName")
        assert name not in switches, f"{name} occurs twice"
        assert len(name) <= MAX_NAME_LENGTH, f"{name} is longer than Slurm allows"
        switches[name] = {field: expanded(hostlist) for field, hostlist in fields.items()}
    return switches
