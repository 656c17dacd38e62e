"""Kinds, annotations and labels of LeaderWorkerSet, and the levels that its objects ask for.

They are those of LeaderWorkerSet 0.7 and later.
"""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.level_requests import (
    ANNOTATIONS,
    Annotated,
    LevelRequest,
    ReadAnnotations,
    WatchedKind,
    requests_at,
)

_PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
EXCLUSIVE: Final = _PREFIX + "exclusive-topology"
SUBGROUP_EXCLUSIVE: Final = _PREFIX + "subgroup-exclusive-topology"
SET_OF: Final = _PREFIX + "name"
GROUP_INDEX: Final = _PREFIX + "group-index"
"""Labels of a pod: its LeaderWorkerSet, and the index of its group."""
GROUP_KEY: Final = _PREFIX + "group-key"
"""Label of a pod in an exclusive group: its anti-affinity is against pods with this label."""
SUBGROUP_KEY: Final = _PREFIX + "subgroup-key"
"""The same for an exclusive sub-group."""
SUBGROUP_INDEX: Final = _PREFIX + "subgroup-index"
SIZE: Final = _PREFIX + "size"
"""Annotation of a pod: how many pods its group has."""


def requests(root: Field, read_annotations: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests of a LeaderWorkerSet: exclusive placement, and what schedulers read."""
    annotations = root / "metadata" / "annotations"
    exclusive = [
        (annotations / EXCLUSIVE, True),
        (annotations / SUBGROUP_EXCLUSIVE, True),
    ]
    yield from requests_at(exclusive, accepts_any_label=True)

    pods = root / "spec" / "leaderWorkerTemplate"
    templates = (pods / "leaderTemplate", pods / "workerTemplate")
    yield from read_annotations(Annotated(root, pods=templates))


_TEMPLATES: Final = {"leaderTemplate": ANNOTATIONS, "workerTemplate": ANNOTATIONS}
LEADER_WORKER_SETS: Final = WatchedKind(
    "leaderworkerset.x-k8s.io",
    "LeaderWorkerSet",
    "leaderworkersets",
    ("v1",),
    {**ANNOTATIONS, "spec": {"leaderWorkerTemplate": _TEMPLATES}},
    requests,
)
