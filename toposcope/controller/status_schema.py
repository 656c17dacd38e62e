"""The status that the CRD in the cluster declares, which may be older than this controller.

`helm upgrade` leaves CRDs as they are, and a rollback may bring an older one back. The API server
then answers a whole status with 500, `field not declared in schema`, and writes nothing. What the
CRD declares is written all the same, and `Ready` says what is missing.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from toposcope.api.cluster_topology import VERSION
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import KubeError
from toposcope.kube.runtime import Runtime

log = logging.getLogger(__name__)

CRD_PATH: Final = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clustertopologies.gpu.topology"
)
LOOK_AGAIN_SECONDS: Final = 60.0
"""How long a CRD that lacks fields is taken for what is served: somebody may apply the right
one."""
_MOST_NAMED_FIELDS: Final = 5
"""How many missing fields a message names."""

Fields: TypeAlias = Mapping[str, Any]
"""The fields of an object, each with its own; None for one that may hold anything."""

WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "status": (
        "observedGeneration",
        "nodes",
        "gpus",
        "leftOutNodes",
        "leftOutGpus",
        "levelPath",
        "levels",
        "hints",
        "segments",
        "otherSegments",
        "fabric",
        "rails",
        "unavailableLevels",
        "requiredBy",
        "preferredBy",
        "published",
        "conditions",
    ),
    "status.levels": (
        "domain",
        "key",
        "domains",
        "nodes",
        "missing",
        "missingNodes",
        "available",
        "expired",
        "retained",
        "degradedDomains",
        "degraded",
    ),
    "status.levels.degraded": ("name", "nodes"),
    "status.hints": ("key", "domain", "reason", "nodes", "message"),
    "status.segments": (
        "name",
        "nodes",
        "gpus",
        "firstNodes",
        "levels",
        "nodeSelector",
        "clusterTopology",
    ),
    "status.segments.levels": ("domain", "key"),
    "status.segments.nodeSelector": ("matchLabels", "matchExpressions"),
    "status.segments.nodeSelector.matchExpressions": ("key", "operator", "values"),
    "status.otherSegments": ("segments", "nodes", "gpus"),
    "status.fabric": (
        "degradedNodes",
        "unknownNodes",
        "splitDomains",
        "smallDomains",
        "splits",
        "small",
        "rebuilds",
    ),
    "status.fabric.rebuilds": ("from", "to", "nodes", "left", "chassis", "time"),
    "status.fabric.splits": ("by", "name", "domains", "nodes"),
    "status.fabric.small": ("name", "gpus", "usual"),
    "status.rails": ("nodes", "miscabledRails", "miscabled", "sharedNames"),
    "status.rails.miscabled": ("node", "nic", "switch", "port", "expected"),
    "status.rails.sharedNames": ("name", "switches"),
    "status.unavailableLevels": ("domain",),
    "status.requiredBy": ("domain", "workloads"),
    "status.preferredBy": ("domain", "workloads", "available"),
    "status.published": ("apiVersion", "kind", "name", "inSync", "message"),
    "status.conditions": (
        "type",
        "status",
        "observedGeneration",
        "lastTransitionTime",
        "reason",
        "message",
    ),
}
"""The fields that this version writes: those of an object by its path, lists left out of it.

As in its own CRD.
"""


class StatusSchema:
    """What the CRD in the cluster declares of a status; everything while that is not known."""

    def __init__(self, client: Caller, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime
        self._declared: Fields | None = None
        self._look_at = 0.0
        self._has_looked = False
        self.missing: tuple[str, ...] = ()
        """The fields that this version writes and the CRD lacks, by their paths."""

    def look(self) -> None:
        """Read the CRD at the start, and each minute while it lacks fields or cannot be read."""
        if self._has_looked and self.is_whole:
            return
        if not self._has_looked or self._runtime.monotonic() >= self._look_at:
            self.look_again()

    def look_again(self) -> None:
        """Read the CRD now, because the API server has refused a status."""
        self._has_looked = True
        self._look_at = self._runtime.monotonic() + LOOK_AGAIN_SECONDS
        self._declared = self._read()
        if self._declared is None:
            self.missing = ()
        else:
            self.missing = tuple(_lacking(self._declared))

    def _read(self) -> Fields | None:
        """The fields of the status; None if they cannot be read."""
        try:
            crd = find(self._client, CRD_PATH)
        except KubeError as error:
            log.warning(
                "cannot read the CRD of ClusterTopology, so its whole status is written: %s",
                error,
            )
            return None
        return None if crd is None else _status_fields(crd)

    @property
    def is_whole(self) -> bool:
        """Whether the CRD was read and declares all that this version writes."""
        return self._declared is not None and not self.missing

    @property
    def problem(self) -> str:
        """What the CRD lacks and what to do; empty when it lacks nothing, or could not be read."""
        if not self.missing:
            return ""
        shown = ", ".join(self.missing[:_MOST_NAMED_FIELDS])
        more = len(self.missing) - _MOST_NAMED_FIELDS
        fields = f"{shown} and {more} more" if more > 0 else shown
        return (
            f"The CRD of ClusterTopology is older than this controller and lacks {fields}; "
            "the status is written without them. "
            "Apply the CRD of this version: kubectl apply --server-side -k manifests/crds"
        )

    def declared_part(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """The status without the fields that the CRD lacks."""
        if self._declared is None:
            return dict(status)
        part: dict[str, Any] = _declared_part(status, self._declared)
        return part


def _declared_part(value: Any, fields: Fields | None) -> Any:
    if fields is None:
        return value
    if isinstance(value, list):
        return [_declared_part(entry, fields) for entry in value]
    if not isinstance(value, Mapping):
        return value
    part = {}
    for name, inner in value.items():
        if name in fields:
            part[name] = _declared_part(inner, fields[name])
    return part


def _status_fields(crd: Mapping[str, Any]) -> Fields | None:
    """The fields of the status in a CRD; None if it does not say."""
    for version in crd["spec"].get("versions") or ():
        if version.get("name") != VERSION:
            continue
        schema = version.get("schema", {})
        properties = schema.get("openAPIV3Schema", {}).get("properties", {})
        status = properties.get("status")
        return {} if status is None else _fields(status)
    return None


def _fields(schema: Mapping[str, Any]) -> Fields | None:
    """The fields of an object or of a list's items.

    None where any are taken, and for what is no object.
    """
    if schema.get("type") == "array":
        return _fields(schema.get("items", {}))
    properties = schema.get("properties")
    if properties is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return None
    return {name: _fields(inner) for name, inner in properties.items()}


def _lacking(declared: Fields) -> Sequence[str]:
    """The paths of `WRITTEN` that are not declared, without those below one of them."""
    lacking = []
    for path, names in WRITTEN.items():
        fields = _at(declared, path)
        if fields is None:
            continue
        for name in names:
            if name not in fields:
                lacking.append(f"{path}.{name}")
    return lacking


def _at(declared: Fields, path: str) -> Fields | None:
    """The fields of the object at a path; None if anything is taken there, or nothing."""
    fields: Fields | None = declared
    _, *names = path.split(".")
    for name in names:
        if fields is None:
            return None
        fields = fields.get(name)
    return fields
