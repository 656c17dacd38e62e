"""Kinds of Grove, and the levels that its PodCliqueSets request.

`packDomain` is the only field of alpha.4-9; alpha.10 rejects it on new objects and keeps it on old
ones. `topologyName` (since alpha.9) is inherited from the scaling group and from the set.
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
from toposcope.integrations.framework.published import PublishedKind
from toposcope.kube.discovery import Kind

GROUP: Final = "grove.io"
_VERDICTS: Final = "schedulerTopologyStatuses"
"""Field of a binding's status: whether the topologies that it names have its levels."""
BINDINGS: Final = PublishedKind(
    GROUP,
    "ClusterTopologyBinding",
    "clustertopologybindings",
    ("v1alpha1",),
    "grove",
    verdict_field=_VERDICTS,
)
OLDER_TOPOLOGIES: Final = PublishedKind(
    GROUP, "ClusterTopology", "clustertopologies", ("v1alpha1",), "grove", verdict_field=_VERDICTS
)
"""The predecessor of the binding, in two forms: Grove's operator writes that of alpha.4 to alpha.8.
"""
SCALING_GROUP: Final = Kind(
    GROUP, "PodCliqueScalingGroup", "podcliquescalinggroups", ("v1alpha1",), short=("pcsg",)
)
CLIQUE: Final = Kind(GROUP, "PodClique", "podcliques", ("v1alpha1",), short=("pclq",))
GANG: Final = Kind("scheduler.grove.io", "PodGang", "podgangs", ("v1alpha1",))
GANG_OF: Final = "grove.io/podgang"
"""Label of a pod: its PodGang."""
CLIQUE_OF: Final = "grove.io/podclique"
"""Label of a pod: its PodClique, which is a `podgroup` of the PodGang."""
OPERATORS_TOPOLOGY: Final = "grove-topology"
"""The only ClusterTopology that Grove's operator of alpha.4 to alpha.8 reads and writes."""


def constrained(template: Field) -> Iterator[Field]:
    """All places that can have a constraint, broadest first."""
    yield template
    yield from (template / "podCliqueScalingGroups").items()
    yield from (template / "cliques").items()


def clique_names(scaling_group: Field) -> list[str]:
    """The cliques of a scaling group."""
    names = []
    for field in (scaling_group / "cliqueNames").items():
        name = field.text()
        if name:
            names.append(name)
    return names


def clique_replicas(spec: Field) -> int:
    """The pods of a clique: Grove's defaulting webhook turns 0 into 1."""
    return (spec / "replicas").number(1) or 1


def requests(root: Field, read_annotations: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests of a PodCliqueSet."""
    yield from read_annotations(Annotated(root))
    template = root / "spec" / "template"
    top = template / "topologyConstraint"
    default = (top / "topologyName").text()
    inherited: dict[str, str | None] = {}
    for place in constrained(template):
        constraint = place / "topologyConstraint"
        name = (place / "name").text() or ""
        topology = (constraint / "topologyName").text()
        if not topology:
            topology = inherited.get(name, default)
        for clique in clique_names(place):
            inherited[clique] = topology

        pack = constraint / "pack"
        levels = (
            (constraint / "packDomain", True),
            (pack / "required", True),
            (pack / "preferred", False),
        )
        yield from requests_at(levels, topology)


_PACK: Final = {"required": str, "preferred": str}
CONSTRAINED: Final = {"topologyConstraint": {"topologyName": str, "packDomain": str, "pack": _PACK}}
"""What is read of an object with a constraint."""
_CONSTRAINED: Final = {**CONSTRAINED, "name": str}
POD_CLIQUE_SETS: Final = WatchedKind(
    GROUP,
    "PodCliqueSet",
    "podcliquesets",
    ("v1alpha1",),
    {
        **ANNOTATIONS,
        "spec": {
            "template": {
                **_CONSTRAINED,
                "cliques": [_CONSTRAINED],
                "podCliqueScalingGroups": [{**_CONSTRAINED, "cliqueNames": [str]}],
            }
        },
    },
    requests,
    short=("pcs",),
    translated_by=GROUP,
)

LEVELS_UNAVAILABLE: Final = "TopologyLevelsUnavailable"
"""Condition of a PodCliqueSet."""
CLIQUE_GROUP: Final = "clique"
SCALED_GROUP: Final = "scaling group"
"""Kinds of the groups of a PodCliqueSet."""
