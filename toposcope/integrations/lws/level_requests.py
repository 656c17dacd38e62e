"""LeaderWorkerSet: exclusive placement of groups and sub-groups, and what KAI and Kueue read from its pod templates.

Exclusive placement is pod affinity over a node label, so the label need not be a level.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from toposcope.integrations.framework.level_requests import LevelRequest, Meta, Source, Template, annotations, need
from toposcope.integrations.kai import level_requests as kai
from toposcope.integrations.kueue import level_requests as kueue
from toposcope.kube.reflector import Raw

_EXCLUSIVE: Final = (
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
)


class _Templates(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    leader_template: Template | None = None
    worker_template: Template | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    leader_worker_template: _Templates | None = None


class _Set(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    spec: _Spec | None = None


_SET: Final = msgspec.json.Decoder(_Set)


def needs(raw: Raw) -> Iterator[LevelRequest]:
    """What a LeaderWorkerSet asks for."""
    found = _SET.decode(raw)
    own = found.metadata.annotations or {}
    for key in _EXCLUSIVE:
        if label := own.get(key):
            yield need(label, required=True, any_label=True)
    pods = (found.spec or _Spec()).leader_worker_template or _Templates()
    templates = [annotations(pods.leader_template), annotations(pods.worker_template)]
    yield from kai.annotated(own, templates)
    yield from kueue.annotated(templates)


SOURCE: Final = Source("LeaderWorkerSet", "leaderworkerset.x-k8s.io", ("v1",), "leaderworkersets", needs)
