"""Azure's fault domains, which stand in the zone label of VMs without availability zones.

Azure's cloud provider writes the number of the VM's platform fault domain there (0 to 4), which
says what fails together: nodes of one are no nearer to each other than to any others. A zone is
written with its region (`eastus-1`), so a bare number is never one.
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
"""No label value has a space, so none can be taken for these words with a number."""

FAULT_DOMAINS: Final = frozenset(f"{_WORDS}{number}" for number in range(_MOST))
"""Replaces the zone of a node in a fault domain: a placeholder."""


def zone_of(value: str) -> str:
    """What stands for the zone label's value on a node of Azure."""
    words = f"{_WORDS}{value}"
    return words if words in FAULT_DOMAINS else value


def written(value: str) -> str:
    """The label's value for which the words stand; any other value as it is."""
    return value.removeprefix(_WORDS) if value in FAULT_DOMAINS else value
