"""Azure's fault domains, which the zone label of VMs without availability zones holds.

Azure's cloud provider writes the number of the VM's platform fault domain there (0 to 4). It says
which nodes fail together, not which are near each other. A zone includes its region (`eastus-1`),
so a bare number is never a zone.
"""

from typing import Final

ZONE_KEYS: Final = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
)
"""The labels in which a cloud provider writes the zone."""
AZURE: Final = "azure://"
"""How `spec.providerID` of Azure's nodes begins."""
_MOST: Final = 20
"""Fault domains of a scale set."""
_WORDS: Final = "fault domain "
"""A label value has no space, so none can look like these words with a number."""

FAULT_DOMAINS: Final = frozenset(f"{_WORDS}{number}" for number in range(_MOST))
"""Placeholders that replace the zone of a node in a fault domain."""


def zone_of(value: str) -> str:
    """The zone label's value on an Azure node, or the placeholder of its fault domain."""
    words = f"{_WORDS}{value}"
    return words if words in FAULT_DOMAINS else value


def written(value: str) -> str:
    """The label's value behind a placeholder of `zone_of`; any other value as it is."""
    return value.removeprefix(_WORDS) if value in FAULT_DOMAINS else value
