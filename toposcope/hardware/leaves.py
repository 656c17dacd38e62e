"""Leaves: which NICs of a node are its rails, and which leaf switch or group they connect to."""

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from toposcope.api.label_keys import LEAF, LEAF_GROUP
from toposcope.api.label_values import MAX_VALUE_CHARACTERS, label_safe
from toposcope.hardware.compute_network import Paths, compute_nics, is_infiniband, nearest
from toposcope.hardware.rails import MOST_RAILS, Rail
from toposcope.hardware.topology import Nic
from toposcope.text import compact, natural

_ID_DIGITS: Final = 6
_GROUP_DIGITS: Final = 8
_END_CHARACTERS: Final = (MAX_VALUE_CHARACTERS - _GROUP_DIGITS - len("..-")) // 2
"""Characters of the first and the last leaf in the name of their group."""
_DEFAULT_NAME_PART: Final = "technologies"
"""Part of an InfiniBand switch's default name: `Quantum Mellanox Technologies`."""


def rails_text(rails: Sequence[Rail | None]) -> str:
    """The value of the annotation `gpu.topology/rails`."""
    entries: list[dict[str, str] | None] = []
    for rail in rails[:MOST_RAILS]:
        if rail is None:
            entries.append(None)
        else:
            entries.append(rail._asdict())
    return compact(entries)


def rail_nics(paths: Paths, nics: Sequence[Nic], cabled: Collection[str]) -> set[str]:
    """The NICs that are rails: those of the compute network nearest to GPUs, all if none is near.

    A port that is down stays a rail, or the others would look like another group; but the second
    port of a card is a rail only if it is up or in `cabled`.
    """
    used = set()
    cards_in_use = set()
    unused = []
    for nic in _candidates(paths, nics):
        if nic.is_down and nic.name not in cabled:
            unused.append(nic)
            continue
        used.add(nic.name)
        cards_in_use.add(nic.card)
    for nic in unused:
        if nic.card not in cards_in_use:  # the first port, if all ports of the card are down
            used.add(nic.name)
            cards_in_use.add(nic.card)
    return used


def _candidates(paths: Paths, nics: Sequence[Nic]) -> list[Nic]:
    """The NICs of the compute network nearest to GPUs, else the InfiniBand ones, else all."""
    near: set[int] = set()
    chosen_by_gpu = compute_nics(paths, nics)
    for row, chosen in zip(paths, chosen_by_gpu, strict=True):
        nearest_nics = nearest(row, chosen)
        near.update(nearest_nics)
    if near:
        positions = sorted(near)
        return [nics[at] for at in positions]
    infiniband = [nic for nic in nics if is_infiniband(nic)]
    if infiniband:
        return infiniband
    return list(nics)


def leaf_labels(rails: Sequence[Rail | None]) -> dict[str, str]:
    """The label of the switch that all rails connect to, or of their group of switches.

    No label while the switch of one rail is unknown.
    """
    values = set()
    for rail in rails:
        if rail is None:
            return {}
        value = _value(rail)
        values.add(value)
    if not values:
        return {}

    ordered = sorted(values, key=natural)
    first = ordered[0]
    if len(ordered) == 1:
        return {LEAF: first}
    head = first[:_END_CHARACTERS]
    last = ordered[-1][:_END_CHARACTERS].rstrip("-_.")
    text = "\n".join(ordered)
    digest = _digest(text, _GROUP_DIGITS)
    return {LEAF_GROUP: f"{head}..{last}-{digest}"}


def _value(rail: Rail) -> str:
    """A switch as a label value: its name, with some digits of its id if the name is a default.

    A name that an admin gave has a number in its host part, and is not the maker's.
    """
    name = label_safe(rail.switch) or "switch"
    host, _, _ = name.partition(".")
    has_number = any(map(str.isdigit, host))
    if has_number and _DEFAULT_NAME_PART not in name.casefold():
        return name
    head = name[:_END_CHARACTERS]
    digest = _digest(rail.id, _ID_DIGITS)
    return f"{head}-{digest}"


def _digest(text: str, digits: int) -> str:
    digest = hashlib.sha256(text.encode())
    return digest.hexdigest()[:digits]
