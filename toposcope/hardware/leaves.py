"""Leaves: which NICs of a node are its rails, and which leaf switch or group of leaves they make."""

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from toposcope.api.label_keys import LEAF, LEAF_GROUP
from toposcope.api.label_values import MAX_VALUE, label_safe
from toposcope.hardware.compute_network import Paths, compute_nics, is_infiniband, nearest
from toposcope.hardware.rails import MOST_RAILS, Rail
from toposcope.hardware.topology import Nic
from toposcope.text import compact, natural

_ID_DIGITS: Final = 6
_GROUP_DIGITS: Final = 8
_END: Final = (MAX_VALUE - _GROUP_DIGITS - len("..-")) // 2
"""Characters of the first and the last leaf in the name of their group."""
_MAKERS: Final = "technologies"
"""In what an InfiniBand switch calls itself until somebody names it: `Quantum Mellanox
Technologies`."""


def rails_text(rails: Sequence[Rail | None]) -> str:
    """The value of the annotation `gpu.topology/rails`."""
    return compact([rail and rail._asdict() for rail in rails[:MOST_RAILS]])


def rail_nics(paths: Paths, nics: Sequence[Nic], cabled: Collection[str]) -> set[str]:
    """The NICs that are rails: those of the compute network nearest to GPUs.

    All, where none is near to any. A port that is down stays a rail, or the others would look like
    another group; but not the second port of a card unless it is up or in `cabled`.
    """
    near: set[int] = set()
    for row, chosen in zip(paths, compute_nics(paths, nics), strict=True):
        near.update(nearest(row, chosen))
    rails = [nics[at] for at in sorted(near)]
    if not rails:
        rails = [nic for nic in nics if is_infiniband(nic)] or list(nics)
    used = {nic.name for nic in rails if not nic.down or nic.name in cabled}
    cards_in_use = {nic.card for nic in rails if nic.name in used}
    for nic in rails:
        if nic.card not in cards_in_use:  # of ports that are all down the first
            used.add(nic.name)
            cards_in_use.add(nic.card)
    return used


def leaf_labels(rails: Sequence[Rail | None]) -> dict[str, str]:
    """The label of the switch that all rails meet in, or of their group.

    None while the switch of one is unknown.
    """
    known = [rail for rail in rails if rail]
    if not known or len(known) < len(rails):
        return {}
    values = sorted({_value(rail) for rail in known}, key=natural)
    if len(values) == 1:
        return {LEAF: values[0]}
    digest = hashlib.sha256("\n".join(values).encode()).hexdigest()[:_GROUP_DIGITS]
    return {LEAF_GROUP: f"{values[0][:_END]}..{values[-1][:_END].rstrip('-_.')}-{digest}"}


def _value(rail: Rail) -> str:
    """A switch as a label value.

    Its name where that looks like its own, else with some digits of its id. Names of one maker's
    switches differ in a number, if anybody named them; the domain behind a host's name does not
    count.
    """
    name = label_safe(rail.switch) or "switch"
    own = (
        any(character.isdigit() for character in name.partition(".")[0])
        and _MAKERS not in name.casefold()
    )
    return (
        name
        if own
        else f"{name[:_END]}-{hashlib.sha256(rail.id.encode()).hexdigest()[:_ID_DIGITS]}"
    )
