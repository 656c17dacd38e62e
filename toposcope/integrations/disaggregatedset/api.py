"""Kind and labels of DisaggregatedSet, and the level that its slices request.

A placement policy is pod affinity over a node label, so the label need not be a level. Source:
api/disaggregatedset/v1 of August 2026.
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

SET_OF: Final = "disaggregatedset.x-k8s.io/name"
"""Label of a pod: its set."""
SLICE: Final = "disaggregatedset.x-k8s.io/slice"
"""Label of a pod: the slice that it is in. Its anti-affinity is against other slices."""
NONE: Final = "None"
"""The default type of a policy, which requests nothing."""
EXCLUSIVE_SLICE: Final = "ExclusiveSlice"
EXCLUSIVE_TOPOLOGY: Final = "ExclusiveTopology"


def policy_of(root: Field) -> Field:
    """The field with the placement of slices."""
    return root / "spec" / "placementPolicy"


def requests(root: Field, read_annotations: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests of a DisaggregatedSet: its policy, and what schedulers read from templates."""
    policy = policy_of(root)
    kind = policy / "type"
    if kind.text() not in (None, NONE):
        topology = policy / "topology"
        yield from requests_at([(topology, True)], accepts_any_label=True)

    templates = []
    roles = root / "spec" / "roles"
    for role in roles.items():
        pods = role / "spec" / "leaderWorkerTemplate"
        leader = pods / "leaderTemplate"
        worker = pods / "workerTemplate"
        templates += [leader, worker]
    places = Annotated(root, pods=tuple(templates))
    yield from read_annotations(places)


_TEMPLATES: Final = {"leaderTemplate": ANNOTATIONS, "workerTemplate": ANNOTATIONS}
_ROLE: Final = {**ANNOTATIONS, "spec": {"leaderWorkerTemplate": _TEMPLATES}}
DISAGGREGATED_SETS: Final = WatchedKind(
    "disaggregatedset.x-k8s.io",
    "DisaggregatedSet",
    "disaggregatedsets",
    ("v1",),
    {
        **ANNOTATIONS,
        "spec": {"placementPolicy": {"type": str, "topology": str}, "roles": [_ROLE]},
    },
    requests,
)
