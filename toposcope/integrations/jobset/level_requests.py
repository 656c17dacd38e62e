"""JobSet: exclusive placement of its Jobs, and what KAI and Kueue read from its pod templates.

Exclusive placement is pod affinity over a node label, so the label need not be a level. The annotation stands on the
JobSet, or on the template of one replicated Job. v1alpha2 and v1 agree in the fields that are read.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from toposcope.integrations.framework.level_requests import LevelRequest, Meta, Source, Workload, annotations, need
from toposcope.integrations.kai import level_requests as kai
from toposcope.integrations.kueue import level_requests as kueue
from toposcope.kube.reflector import Raw

_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"


class _ReplicatedJob(msgspec.Struct, frozen=True, gc=False):
    template: Workload | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    replicated_jobs: list[_ReplicatedJob] | None = None


class _Set(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    spec: _Spec | None = None


_SET: Final = msgspec.json.Decoder(_Set)


def needs(raw: Raw) -> Iterator[LevelRequest]:
    """What a JobSet asks for."""
    found = _SET.decode(raw)
    own = found.metadata.annotations or {}
    jobs = [job.template or Workload() for job in (found.spec or _Spec()).replicated_jobs or ()]
    for where in (own, *map(annotations, jobs)):
        if label := where.get(_EXCLUSIVE):
            yield need(label, required=True, any_label=True)
    templates = [annotations(job.template) for job in jobs]
    yield from kai.annotated(own, (*map(annotations, jobs), *templates))
    yield from kueue.annotated(templates)


SOURCE: Final = Source(
    "JobSet", "jobset.x-k8s.io", ("v1", "v1alpha2"), "jobsets", needs, finished=frozenset({"Completed", "Failed"})
)
