"""What the passes of one term of leadership work with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.publishing.dry_run import PublishersDryRun
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.writers.node_paths import NodePathsWriter
from toposcope.controller.writers.node_plan import NodePlanWriter
from toposcope.integrations import registry as systems
from toposcope.integrations.framework.publishing.publisher import (
    Publisher,
    Publishing,
    PublishSettings,
)
from toposcope.kube.client import ApiClient
from toposcope.kube.runtime import REAL, Runtime


def _publishing() -> Publishing:
    return systems.publishing(PublishSettings())


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of a `Reconciler`."""

    client: ApiClient
    """Reads and writes; fenced to the leader's term."""
    publishers: Sequence[Publisher] = ()
    """They are called in this order."""
    runtime: Runtime = REAL
    cached_reader: CachedReader | None = None
    """What the publishers read through."""
    backoff: WriteBackoff | None = None
    """What the publishers write through."""
    dry_run: PublishersDryRun | None = None
    """Finds out what the publishers would do, for topologies whose spec asks for that."""
    publishing: Publishing = field(default_factory=_publishing)
    """What the publishers share."""
    node_plan: NodePlanWriter | None = None
    """Writes the agents' plan."""
    node_paths: NodePathsWriter | None = None
    """Writes the paths of all nodes for the policy that labels pods, or deletes them."""
    show: Callable[[str], None] | None = None
    """Gets each difference once, where every pass is a dry run and nothing is written."""
    is_single_look: bool = False
    """There is one pass only, so that a required level which is gone now counts as gone."""
