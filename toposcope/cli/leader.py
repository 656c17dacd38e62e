"""Whether a controller leads, judged by its Lease.

The conditions do not tell: those of a controller that is gone stay as they were.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from toposcope.controller.options import LEASE
from toposcope.integrations.framework.document import Field
from toposcope.text import plural

_DEFAULT_LEASE_SECONDS: Final = 15
"""How long a Lease lasts that has no leaseDurationSeconds."""
_RENEWALS_PER_LEASE: Final = 7.5
"""How often a leader renews its Lease while it lasts, as the election does."""
_MAX_LATE_RENEWALS: Final = 2.0
"""Renewals that may be late."""
_OBSERVED_RENEWALS: Final = 2.5
"""Renewals to wait for where the clocks say that it is late: this clock may be wrong."""

ReadLease: TypeAlias = Callable[[], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Leader:
    """The controller that keeps the status up to date, and whether it does."""

    words: str
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class _Lease:
    holder: str
    renewed: datetime
    duration_seconds: int
    """How long it lasts."""

    @property
    def interval_seconds(self) -> float:
        """Seconds between two renewals."""
        return self.duration_seconds / _RENEWALS_PER_LEASE

    def age_seconds(self, now: datetime) -> float:
        """Seconds since its last renewal, by this machine's clock."""
        since = now - self.renewed
        return since.total_seconds()


def leader_of(
    read: ReadLease, now: Callable[[], datetime], wait: Callable[[float], object]
) -> Leader:
    """The controller that holds the Lease, and whether it still renews it.

    A Lease that is old by this machine's clock is watched for some seconds, as other controllers
    do: a renewal in the meantime proves that the controller runs, whatever the clocks say. Raises
    what `read` raises.
    """
    lease = _held(read())
    if isinstance(lease, Leader):
        return lease

    age_seconds = lease.age_seconds(now())
    is_old = age_seconds > 2 * lease.duration_seconds
    is_late = (
        not -lease.interval_seconds <= age_seconds <= _MAX_LATE_RENEWALS * lease.interval_seconds
    )
    if is_late and not is_old:
        renewed = _next_renewal(lease, read, wait)
        if renewed is None:
            return _lost(lease, lease.age_seconds(now()))
        lease, age_seconds = renewed, renewed.age_seconds(now())
    if is_old:
        return _lost(lease, age_seconds)
    return Leader(f"{lease.holder} holds the Lease, renewed {_duration(age_seconds)} ago")


def _held(document: Mapping[str, Any] | None) -> _Lease | Leader:
    """The Lease, or what is wrong where no controller holds it."""
    if document is None:
        return Leader(f"there is no Lease {LEASE}", is_lost=True)

    spec = Field(document) / "spec"
    holder = (spec / "holderIdentity").text()
    renewed = (spec / "renewTime").text()
    if not holder or renewed is None:
        return Leader(f"no controller holds the Lease {LEASE}", is_lost=True)

    renewed_at = _moment(renewed)
    if renewed_at is None:
        return Leader(
            f"not known: spec.renewTime of the Lease {LEASE} is not a time: {renewed[:40]!r}"
        )
    seconds = (spec / "leaseDurationSeconds").number(_DEFAULT_LEASE_SECONDS)
    return _Lease(holder, renewed_at, max(1, seconds))


def _moment(text: str) -> datetime | None:
    """A time with its zone, as the API server writes it; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _next_renewal(lease: _Lease, read: ReadLease, wait: Callable[[float], object]) -> _Lease | None:
    """The Lease as renewed in the next seconds; None if it is not."""
    pause_seconds = lease.interval_seconds / 2
    for _ in range(int(_OBSERVED_RENEWALS * 2)):
        wait(pause_seconds)
        again = _held(read())
        if isinstance(again, Leader):
            return None
        if again != lease:
            return again
    return None


def _lost(lease: _Lease, age_seconds: float) -> Leader:
    words = (
        f"{lease.holder} does not renew its Lease: the last time was {_duration(age_seconds)} ago, "
        f"at {lease.renewed:%Y-%m-%dT%H:%M:%SZ}"
    )
    return Leader(words, is_lost=True)


def _duration(age_seconds: float) -> str:
    """A duration in words; a clock that is behind shows none."""
    seconds = max(0, round(age_seconds))
    return f"{seconds:,} {plural(seconds, 'second')}"
