"""The fields of a DynamoGraphDeployment that ask for a placement; all others are Dynamo's own business."""

from typing import Any, Final

from toposcope.integrations.dynamo.api import TOPOLOGY_NAMES
from toposcope.integrations.framework.unknown_fields import OPEN, STRICT

_TRANSFER: Final = {STRICT: "", "labelKey": "", "domain": "", "enforcement": "", "preferredWeight": ""}
_OVERRIDE: Final = {STRICT: "", "apiVersion": "", "target": "", "value": ""}
_COMPONENT: Final = {
    OPEN: "",
    "topologyConstraint": {STRICT: "", "packDomain": ""},
    "replicas": "",
    "multinode": {OPEN: "", "nodeCount": ""},
}
_ROLE: Final = {OPEN: "", "name": "", "replicas": "", "podTemplate": "", "providerOverride": _OVERRIDE}


def fields_of(newest: bool) -> Any:
    """The fields of `spec`, in v1beta1 (`newest`) or in v1alpha1; the other version's name of a topology has a rule."""
    transfer = {**_TRANSFER, "clusterTopologyName": ""} if newest else {**_TRANSFER, "noMatchPolicy": ""}
    spec = {
        OPEN: "",
        "topologyConstraint": {STRICT: "", **dict.fromkeys(TOPOLOGY_NAMES, ""), "packDomain": ""},
        "experimental": {OPEN: "", "kvTransferPolicy": transfer},
    }
    if not newest:
        return {**spec, "services": {"*": {**_COMPONENT, "resources": "", "extraPodSpec": "", "extraPodMetadata": ""}}}
    component = {**_COMPONENT, "podTemplate": "", "roles": [_ROLE], "providerOverride": _OVERRIDE}
    return {**spec, "components": [component], "providerOverride": _OVERRIDE}
