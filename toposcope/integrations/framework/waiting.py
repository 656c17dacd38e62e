"""Why a system's pods wait: the base of `WAITING` in its `waiting.py`."""

from collections.abc import Iterator, Mapping

from toposcope.integrations.framework.features import SchedulerMessage, Step, WorkloadObjects
from toposcope.integrations.framework.published import PublishedKind
from toposcope.kube.discovery import Kind


class Waiting:
    """What one system's objects say about its waiting pods. A system overrides what it has."""

    subjects: tuple[Kind, ...] = ()
    """What can be explained besides pods: owners of pods, and what schedulers create for them."""
    around: tuple[Kind, ...] = ()
    """What its scheduler reads besides the workload and topologies."""
    topology_kinds: Mapping[str, tuple[PublishedKind, ...]] = {}
    """By the name of a reader: the topology resource that it goes by, any one of these."""

    def check(self, workload: WorkloadObjects) -> Iterator[Step]:
        """Whether everything is enabled that keeps the pods together."""
        del workload
        yield from ()

    def messages(self, workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
        """What its objects report about the workload, unless all is well."""
        del workload
        yield from ()

    def meaning(self, text: str) -> str:
        """What a message means, where no pattern of `meanings.yaml` can tell; empty: not known."""
        del text
        return ""
