"""What every writer is: it writes what a pass found, and says what came of that.

`TopologyWriter` lists those of one topology in their order; `NodePlanWriter` writes for all of
them at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from toposcope.api.conditions import Condition
from toposcope.controller.assess.rebuilds import Rebuild
from toposcope.controller.look import Pass
from toposcope.controller.segments import SegmentTopology
from toposcope.integrations.framework.published import Published
from toposcope.kube.errors import ApiError

_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500

Found_contra = TypeVar("Found_contra", contravariant=True)
"""What a writer is about: the findings of one topology, or the plans of all."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a pass has written for one topology; each writer tells of what is there before it."""

    children: Sequence[SegmentTopology] = ()
    """The ClusterTopologies of its segments."""
    resources: Sequence[Published] = ()
    """The resources that schedulers read."""
    is_any_served: bool = False
    """Whether the cluster serves any kind that the spec wants."""
    conditions: Sequence[Condition] = ()
    """Those of the status, `Ready` last."""
    status: Mapping[str, Any] | None = None
    """The new status; None: it has not changed."""
    rebuilds: Sequence[Rebuild] = ()
    """Rebuilt fabrics that an Event has told now."""


NOTHING_WRITTEN: Final = Written()


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """When a writer wants another pass, what was refused, and what is written by now."""

    due: float | None = None
    """In monotonic seconds; None: the usual resync is soon enough."""
    refusal: ApiError | None = None
    written: Written = NOTHING_WRITTEN
    """With what the writers before it wrote."""


class Writer(Protocol[Found_contra]):
    """Brings one kind of object up to date."""

    def write(self, look: Pass, findings: Found_contra, /) -> WriteOutcome:
        """Write what differs. Raises KubeError if the API server does not answer."""


def is_outage(error: ApiError) -> bool:
    """Whether the API server cannot answer now, which says nothing about the request."""
    return error.status >= _SERVER_ERROR or error.status == _TOO_MANY_REQUESTS
