"""What each NIC of a node is cabled to.

The annotation `gpu.topology/switches`, here with blanks:

    {"mlx5_0": {"switch": "leaf-01", "id": "mac:b8:59:9f:00:00:01", "port": "Ethernet1/3",
                "by": "lldp"},
     "mlx5_1": null}

null: the port has no neighbour, or it is unknown. A cable in the wrong switch also has `expected`,
the right switch.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from toposcope.hardware.rails import Miscabled
from toposcope.text import compact, parse

MAX_ANNOTATION_CHARACTERS: Final = 16384
"""Characters of the annotation; as in the admission policy."""
MAX_TEXT_CHARACTERS: Final = 63
"""Characters of each text about a neighbour: names of hosts and devices have no more."""
_MAX_NICS: Final = 64
_UNPRINTABLE: Final = re.compile(r"[^ -~]")


class Neighbour(NamedTuple):
    """The switch at the other end of a NIC's cable."""

    switch: str
    """System name; empty if the switch has none."""
    id: str
    """Identifies the switch: `mac:...`, `guid:...`, or another kind of chassis id."""
    port: str
    by: str
    """How it was discovered: `lldp` or `infiniband`."""


Neighbours = Mapping[str, Neighbour | None]
"""NIC name to its neighbour."""


def plain(text: str) -> str:
    """Printable ASCII of untrusted text for an annotation, cut at `MAX_TEXT_CHARACTERS`."""
    kept = _UNPRINTABLE.sub("?", text.strip())
    return kept[:MAX_TEXT_CHARACTERS].strip()


def neighbours_text(
    neighbours: Neighbours, miscabled: Mapping[str, Miscabled] = MappingProxyType({})
) -> str:
    """The annotation's value, NICs in the given order.

    It ends before the first NIC that would exceed `MAX_ANNOTATION_CHARACTERS`. `miscabled`: the
    finding for each NIC, made when its cable may have been in another switch or port.
    """
    entries: dict[str, dict[str, str] | None] = {}
    for nic, neighbour in neighbours.items():
        if neighbour is None:
            entries[nic] = None
            continue
        entry = neighbour._asdict()
        wrong = miscabled.get(nic)
        if wrong and _is_still_there(wrong, neighbour):
            entry["expected"] = plain(wrong.expected)
        entries[nic] = entry

    text = compact(entries)
    while len(text) > MAX_ANNOTATION_CHARACTERS:
        entries.popitem()
        text = compact(entries)
    return text


def _is_still_there(wrong: Miscabled, neighbour: Neighbour) -> bool:
    """Whether the cable is still in the wrong switch and port of the finding."""
    if wrong.port != neighbour.port:
        return False
    name = neighbour.switch or neighbour.id
    # Findings add the id if several switches share the name.
    name_with_id = f"{neighbour.switch} ({neighbour.id})"
    return wrong.switch in (name, name_with_id)


def parse_neighbours(annotation: str) -> dict[str, Neighbour | None]:
    """The neighbours in an annotation. Raises ValueError for anything else."""
    try:
        entries = parse(annotation)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if type(entries) is not dict or len(entries) > _MAX_NICS:
        raise ValueError(f"not an object of at most {_MAX_NICS} NICs")
    neighbours = {}
    for nic, entry in entries.items():
        neighbours[nic] = _neighbour(entry)
    return neighbours


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and text == plain(text)


def _neighbour(entry: object) -> Neighbour | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        # The text is wrong, not a caller.
        raise ValueError("a neighbour is neither an object nor null")  # noqa: TRY004
    texts = [entry.get(field, "") for field in Neighbour._fields]
    are_plain = all(map(_is_plain, texts))
    if not are_plain or not entry.get("id"):
        raise ValueError(
            "a neighbour needs an id, and texts of "
            f"at most {MAX_TEXT_CHARACTERS} printable ASCII characters"
        )
    return Neighbour(*texts)
