"""The switches that NICs are cabled to, as a node's annotation and a status name them."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from toposcope.text import parse

MOST_RAILS: Final = 64
"""Rails of one node; current machines have up to 16 NICs."""
_MAX_TEXT_CHARACTERS: Final = 255
"""Longest name in characters: the most bytes that an LLDP string has."""


class LeafSwitch(NamedTuple):
    """A leaf switch."""

    name: str
    """Its system name, which may be empty or shared."""
    id: str
    """Unique."""


class Rail(NamedTuple):
    """One rail's NIC, and the switch and port at the other end of its cable."""

    nic: str
    switch: str
    """System name; empty if the switch has none."""
    id: str
    """`mac:...`, `guid:...`: tells switches with the same name apart."""
    port: str = ""


def parse_rails(annotation: str) -> tuple[Rail | None, ...]:
    """The rails in the annotation `gpu.topology/rails`, in rail order.

    None where the neighbour is not known. Raises ValueError for anything else.
    """
    try:
        entries = parse(annotation)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(entries, list) or len(entries) > MOST_RAILS:
        raise ValueError(f"not a list of up to {MOST_RAILS} rails")
    return tuple(map(_rail, entries))


def _rail(entry: object) -> Rail | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        # The document is wrong, not a caller.
        raise ValueError("a rail is neither an object nor null")  # noqa: TRY004
    rail = Rail(
        nic=entry.get("nic", ""),
        switch=entry.get("switch", ""),
        id=entry.get("id", ""),
        port=entry.get("port", ""),
    )
    try:
        text = "".join(rail)
    except TypeError as error:
        raise ValueError("a rail's fields must be strings") from error
    if not text.isprintable() or max(map(len, rail)) > _MAX_TEXT_CHARACTERS:
        raise ValueError(
            f"a rail's fields must be printable and have up to {_MAX_TEXT_CHARACTERS} characters"
        )
    if not (rail.nic and rail.id):
        raise ValueError("a rail lacks its NIC or the switch's id")
    return rail


class Miscabled(NamedTuple):
    """One rail of a node that ends in another switch than those of its peers."""

    node: str
    uid: str
    nic: str
    switch: str
    """Where it ends: the switch's name, else its id."""
    port: str
    expected: str
    """The switch of its peers' rails."""

    @property
    def key(self) -> str:
        """The identity of the finding: a move from one wrong switch to another is not a new one."""
        return f"{self.node}/{self.nic}"

    @property
    def sentence(self) -> str:
        """For people."""
        end = self.switch
        if self.port:
            end = f"{self.switch} port {self.port}"
        return f"{self.nic} of {self.node} goes to {end}, expected {self.expected}"


def reported(status: Mapping[str, Any]) -> list[Miscabled]:
    """The miscabled rails in a stored status, which is not trusted: a missing field is empty."""
    rails = status.get("rails")
    if not isinstance(rails, dict):
        return []
    entries = rails.get("miscabled")
    if not isinstance(entries, list):
        return []
    miscabled = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        texts = [str(entry.get(field, "")) for field in Miscabled._fields]
        rail = Miscabled(*texts)
        miscabled.append(rail)
    return miscabled
