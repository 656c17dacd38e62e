"""The level that a whole gang has to stay within where its pods do not say it, but an object made for it.

Sources: Grove v0.1.0-alpha.12 (scheduler/api/core/v1alpha1, PodGang), KAI 0.17.0 (PodGroup, which it makes of OSMO's,
Run:ai's and Dynamo's workloads too), Volcano 1.15 (PodGroup). Levels are label keys there; in Volcano's, tiers by name,
which is a level's domain or label key. Tiers by number are not read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.grove.api import GANG
from toposcope.integrations.kai.api import POD_GROUPS
from toposcope.integrations.volcano import api as volcano
from toposcope.kube.client import Caller
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything
from toposcope.snapshot.live import forbidden

_PLACES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    GANG.key: ("topologyConstraint", "packConstraint", "required"),
    POD_GROUPS.key: ("topologyConstraint", "requiredTopologyLevel"),
    volcano.POD_GROUPS.key: ("networkTopology", "highestTierName"),
}
"""Fields below `spec`."""
KINDS: Final = (GANG, POD_GROUPS, volcano.POD_GROUPS)


class RequiredLevels:
    """What PodGangs and PodGroups require: a collector of whole objects."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str, str], str] = {}
        """Label key by kind, namespace and name."""
        self.warnings: list[str] = []
        """What `read` must not list."""
        self._documents: list[dict[str, Any]] = []

    def wants(self, group: str, kind: str) -> bool:
        """PodGangs of Grove, PodGroups of KAI and Volcano."""
        return (group, kind) in _PLACES

    def put(self, document: Mapping[str, Any]) -> None:
        """One of them."""
        root = Field(document)
        place = root / "spec"
        for field in _PLACES[kind_of(document)]:
            place /= field
        constraint = _PLACES[kind_of(document)][0]
        soft = (root / "spec" / constraint / "mode").text() == "soft"
        if (key := place.text()) and not soft:
            group, kind = kind_of(document)
            names = {"namespace": namespace_of(root), "name": name_of(root)}
            self.keys[kind, names["namespace"], names["name"]] = key
            spec = {constraint: (root / "spec" / constraint).value}
            self._documents.append(
                {"apiVersion": f"{group}/v", "kind": kind, "metadata": names, "spec": spec}
            )

    def read(self, client: Caller) -> None:
        """Take what the cluster has. Raises KubeError; a missing right is a warning."""
        for kind in KINDS:
            try:
                for item in everything(client, kind.path()):
                    self.put({**item, "apiVersion": kind.api_version(), "kind": kind.kind})
            except ApiError as error:
                if error.forbidden:
                    self.warnings.append(
                        forbidden(kind.name, "levels that only they require are unknown", error)
                    )
                elif not error.not_found:
                    raise

    def documents(self) -> Iterator[dict[str, Any]]:
        """Those that require a level, as `put` takes them."""
        yield from self._documents
