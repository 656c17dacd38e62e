"""The level that a whole gang has to stay within where its pods do not say it, but an object made for it.

Sources: Grove v0.1.0-alpha.12 (scheduler/api/core/v1alpha1, PodGang), KAI 0.17.0 (PodGroup, which it makes of OSMO's,
Run:ai's and Dynamo's workloads too). Levels are label keys there.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.features import Kind
from toposcope.integrations.grove.features import GANG
from toposcope.integrations.kai.api import POD_GROUPS

_PLACES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    GANG.key: ("topologyConstraint", "packConstraint", "required"),
    (POD_GROUPS.group, POD_GROUPS.kind): ("topologyConstraint", "requiredTopologyLevel"),
}
"""Fields below `spec`."""
KINDS: Final = (GANG, Kind(POD_GROUPS.group, POD_GROUPS.kind, POD_GROUPS.plural, POD_GROUPS.versions))


class RequiredLevels:
    """What PodGangs and PodGroups require: a collector of whole objects."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str, str], str] = {}
        """Label key by kind, namespace and name."""
        self._documents: list[dict[str, Any]] = []

    def wants(self, group: str, kind: str) -> bool:
        """PodGangs of Grove, PodGroups of KAI."""
        return (group, kind) in _PLACES

    def put(self, document: Mapping[str, Any]) -> None:
        """One of them."""
        root = Field(document)
        place = root / "spec"
        for field in _PLACES[kind_of(document)]:
            place /= field
        if key := place.text():
            group, kind = kind_of(document)
            names = {"namespace": namespace_of(root), "name": name_of(root)}
            self.keys[kind, names["namespace"], names["name"]] = key
            spec = {"topologyConstraint": (root / "spec" / "topologyConstraint").value}
            self._documents.append({"apiVersion": f"{group}/v", "kind": kind, "metadata": names, "spec": spec})

    def documents(self) -> Iterator[dict[str, Any]]:
        """Those that require a level, as `put` takes them."""
        yield from self._documents
