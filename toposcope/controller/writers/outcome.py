"""What comes of writing something."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.conditions import Condition
from toposcope.controller.segments import SegmentTopology
from toposcope.integrations.framework.published import Published
from toposcope.kube.errors import ApiError

_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """When another pass is needed, and what was refused."""

    due: float | None = None
    """In monotonic seconds; None: the usual resync is soon enough."""
    refusal: ApiError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOutcome(Outcome):
    """The resources that schedulers read."""

    resources: Sequence[Published]
    anything_served: bool
    """Whether the cluster serves any kind that the spec wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsOutcome(Outcome):
    """The ClusterTopologies of a topology's segments."""

    children: Sequence[SegmentTopology] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """All that was written for one topology before its status, which tells of it."""

    segments: SegmentsOutcome
    published: PublishedOutcome
    on_nodes: Sequence[Condition]
    """The conditions about what agents write to Nodes."""


def is_outage(error: ApiError) -> bool:
    """Whether the API server cannot answer now, which says nothing about the request."""
    return error.status >= _SERVER_ERROR or error.status == _TOO_MANY_REQUESTS
