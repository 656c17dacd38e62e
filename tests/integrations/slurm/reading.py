"""Reads Slurm's topology files as Slurm does, for tests of what is written."""

import re


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
    assert len(high) >= len(low), f"range {text}: the end has fewer digits"
    assert int(high) > int(low), f"range {text}: the end is not above the start"
    return [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]


def switches_of(lines: list[str]) -> dict[str, dict[str, list[str]]]:
    """The `Nodes` and `Switches` of each switch of a topology.conf."""
    switches: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        fields = dict(word.split("=", 1) for word in line.split(" "))
        name = fields.pop("SwitchName")
        assert name not in switches, f"{name} occurs twice"
        assert len(name) <= 64, f"{name} is longer than Slurm allows"
        switches[name] = {field: expanded(hostlist) for field, hostlist in fields.items()}
    return switches
