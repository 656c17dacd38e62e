"""Kubernetes quantities (`8`, `100m`, `2113462576Ki`, `1e3`) as whole numbers.

Source of the format: k8s.io/apimachinery/pkg/api/resource (Quantity). Parts of a unit are rounded up, as schedulers do.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

CPU: Final = "cpu"

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i|)", re.ASCII
)
_LONGEST: Final = 40
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {f"{letter}i": 1 << 10 * power for power, letter in enumerate("KMGTPE", 1)}


@lru_cache(maxsize=1 << 14)
def amount(resource: str, quantity: str | float) -> int:
    """A quantity of a resource: CPU in thousandths of a core, memory in bytes, everything else in pieces.

    Raises ValueError for what is no quantity.
    """
    text = str(quantity).strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is no quantity; write a number such as 8, 500m or 2Gi")
    number, unit = match.groups()
    if unit in _BINARY:
        value = Decimal(number) * _BINARY[unit]
    else:
        value = Decimal(number).scaleb(int(unit[1:]) if unit not in _DECIMAL else _DECIMAL[unit])
    if resource == CPU:
        value *= 1000
    return int(value.to_integral_value(ROUND_CEILING))


def amounts(quantities: Mapping[str, str | float] | None) -> dict[str, int]:
    """Every quantity of a resource list. Raises ValueError that names the resource."""
    found = {}
    for resource, quantity in (quantities or {}).items():
        try:
            found[resource] = amount(resource, quantity)
        except ValueError as error:
            raise ValueError(f"{resource}: {error}") from None
    return found
