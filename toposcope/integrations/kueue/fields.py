"""The fields of Kueue's topology resources and requests, for those that a schema lacks: the CRDs of Kueue 0.19.

Newer versions may have more, which is why a field that is close to none of these is only a warning elsewhere; these
objects are small, so here it is a mistake.
"""

from typing import Final

from toposcope.integrations.framework.unknown_fields import STRICT
from toposcope.integrations.kueue import api

VERSION: Final = "Kueue 0.19"
_LAYER: Final = {STRICT: "", "topology": "", "size": ""}
_REQUEST: Final = {
    STRICT: "",
    **dict.fromkeys(api.FIELDS.values(), ""),
    api.FIELDS[api.SLICE_LAYERS]: [_LAYER],
    **dict.fromkeys(("podIndexLabel", "subGroupIndexLabel", "subGroupCount"), ""),
}
TOPOLOGY: Final = {"*": "", "spec": {STRICT: "", "levels": [{STRICT: "", "nodeLabel": ""}]}}
FLAVOR: Final = {
    "*": "",
    "spec": {STRICT: "", **dict.fromkeys(("nodeLabels", "nodeTaints", "tolerations", "topologyName"), "")},
}
WORKLOAD: Final = {"*": "", "spec": {"*": "", "podSets": [{"*": "", "topologyRequest": _REQUEST}]}}
