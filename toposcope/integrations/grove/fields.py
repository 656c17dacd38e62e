"""The fields of a PodCliqueSet: the CRD of v0.1.0-alpha.10 to alpha.12 and main."""

from typing import Any, Final

from toposcope.integrations.framework.pod_fields import POD_SPEC
from toposcope.integrations.framework.unknown_fields import STRICT

_PACK: Final = {STRICT: "", "required": "", "preferred": ""}
CONSTRAINT: Final = {STRICT: "", "topologyName": "", "packDomain": "", "pack": _PACK}
_SCALE: Final = {"minReplicas": "", "maxReplicas": "", "metrics": ""}
_PART: Final = {
    "name": "",
    "annotations": "",
    "labels": "",
    "resourceSharing": "",
    "topologyConstraint": CONSTRAINT,
}
_CLIQUE: Final = {
    "roleName": "",
    "podSpec": POD_SPEC,
    "replicas": "",
    "minAvailable": "",
    "startsAfter": "",
    "autoScalingConfig": _SCALE,
}
_GROUP: Final = {**_PART, "cliqueNames": "", "replicas": "", "minAvailable": "", "scaleConfig": _SCALE}
_TEMPLATE: Final = {
    "cliques": [{**_PART, "spec": _CLIQUE}],
    "cliqueStartupType": "",
    "priorityClassName": "",
    "headlessServiceConfig": {"publishNotReadyAddresses": ""},
    "topologyConstraint": CONSTRAINT,
    "terminationDelay": "",
    "podCliqueScalingGroups": [_GROUP],
    "resourceClaimTemplates": "",
    "resourceSharing": "",
}
FIELDS: Final[Any] = {
    "apiVersion": "",
    "kind": "",
    "metadata": "",
    "spec": {"replicas": "", "updateStrategy": {"type": ""}, "template": _TEMPLATE},
    "status": "",
}
"""An object's fields, or those of a list's items in a list; an empty string where everything below is left alone."""
