"""The facts: who asks for which level."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

_LONGEST: Final = 317
"""A label key: a DNS prefix of 253 characters, a slash, a name of 63."""
_LONGEST_NAME: Final = 253
_TERM: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """An object of the cluster, as Events refer to it; `namespace` is empty where it has none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Need:
    """One level that a workload asks for."""

    term: str
    """A domain (`rack`) or the node label that carries one (`topology.kubernetes.io/zone`)."""
    required: bool
    """False: preferred. It counts as used: schedulers refuse a preferred level that they do not know."""
    topology: str | None = None
    """The topology that the workload names; None: it leaves that to the scheduler."""
    any_label: bool = False
    """Met by pod affinity: a node label that is no level of any topology serves as well."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one object says."""

    workload: WorkloadRef
    version: str = field(default="", compare=False)
    """resourceVersion: that it moved on is no news."""
    owner: WorkloadRef | None = None
    """The object that made it, as its ownerReferences say."""
    finished: bool = False
    """It has run to its end: what it asks for is history, and so is what it owns."""
    needs: tuple[Need, ...] = ()
    problem: str = ""
    """What could not be understood."""


@lru_cache(maxsize=4096)
def need(term: str, *, required: bool, topology: str | None = None, any_label: bool = False) -> Need:
    """One need, shared between the thousands of workloads that have the same.

    Raises ValueError for what can be neither a domain nor a label key: whatever anybody writes into an annotation
    ends up in a ClusterTopology's status.
    """
    if len(term) > _LONGEST or not _TERM.fullmatch(term):
        raise ValueError(f"{term[:80]!r} is neither a domain, such as rack, nor the key of a node label")
    if topology and len(topology) > _LONGEST_NAME:
        raise ValueError(f"{topology[:80]!r}... is no name of a topology: it has more than {_LONGEST_NAME} characters")
    return Need(term, required, topology or None, any_label)
