"""Amounts of resources in words, in the units of kubectl."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.packing import PODS
from toposcope.text import plural

_PIECES: Final = {ALLOCATABLE_GPUS: "GPU", PODS: "pod"}
_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")


class _Scale(NamedTuple):
    bytes: int
    unit: str
    parts: int
    """Fractions of the unit that are shown: tenths, or none."""


_SCALES: Final = (
    _Scale(1 << 30, "GiB", 10),
    _Scale(1 << 20, "MiB", 1),
    _Scale(1 << 10, "KiB", 1),
    _Scale(1, "bytes", 1),
)
"""kubectl's Gi, Mi and Ki; the largest first."""


def amount(resource: str, count: int, needs: int = 0) -> str:
    """An amount with its unit: `8 GPUs`, `1.5 CPU cores`, `64 GiB of memory`, `2 rdma/ib`.

    Rounded up. With `needs` it is the amount available of `needs`: in the same unit and rounded
    down, so that too little never looks like enough.
    """
    number, unit = _scaled(resource, count, needs)
    return f"{number} {unit}"


def number_of(resource: str, count: int, needs: int) -> str:
    """The amount without its unit, which was named before; bytes keep theirs."""
    number, unit = _scaled(resource, count, needs)
    if not is_bytes(resource):
        return number
    scale, _, _ = unit.partition(" ")
    return f"{number} {scale}"


def is_bytes(resource: str) -> bool:
    """Whether the resource is counted in bytes."""
    return resource.startswith(_BYTES)


def unit_of(resource: str, count: int) -> str:
    """The unit of devices and pods: `GPU`, `pods`, `rdma/ib`."""
    if resource in _PIECES:
        return plural(count, _PIECES[resource])
    return resource


def amounts(each: Iterable[tuple[str, int]]) -> str:
    """`8 GPUs, 16 CPU cores and 64 GiB of memory`; pods are left out."""
    words = []
    for resource, count in each:
        if resource != PODS:
            words.append(amount(resource, count))
    if not words:
        return ""

    *most, last = words
    if not most:
        return last
    return f"{', '.join(most)} and {last}"


def _scaled(resource: str, count: int, needs: int) -> tuple[str, str]:
    """The number and its unit."""
    if is_bytes(resource):
        scale = _scale_for(needs or count)
        number = _in_scale(scale, count, round_down=bool(needs))
        return number, f"{scale.unit} of {resource}"

    if resource == "cpu":
        cores = Decimal(count) / 1000
        number = f"{cores.normalize():f}"
        if cores == 1:
            return number, "CPU core"
        return number, "CPU cores"

    return str(count), unit_of(resource, count)


def _scale_for(count: int) -> _Scale:
    for scale in _SCALES:
        if count >= scale.bytes:
            return scale
    return _SCALES[-1]


def _in_scale(scale: _Scale, count: int, *, round_down: bool) -> str:
    parts, rest_bytes = divmod(count * scale.parts, scale.bytes)
    if rest_bytes and not round_down:
        parts += 1
    shown = Decimal(parts) / scale.parts
    return f"{shown:f}"
