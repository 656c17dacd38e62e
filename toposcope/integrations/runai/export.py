"""Run:ai's network topology."""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.export import (
    LEVELS_WITHOUT_NAMES,
    ExportFlag,
    ExportOptions,
    LevelsFormat,
    Variant,
)
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.runai import topology


def _write(levels: TopologyLevels, options: ExportOptions) -> Mapping[str, Any]:
    return topology.write(levels, options.cluster_id)


def _missing(options: ExportOptions) -> str:
    if options.cluster_id:
        return ""
    return "clusterId is missing: give --cluster-id, or fill it in"


FORMATS: Final = (
    LevelsFormat(
        name="runai",
        variants=(Variant("v2", _write, LEVELS_WITHOUT_NAMES, _missing),),
        has_json_default=True,
        flags=(ExportFlag(field="cluster_id", metavar="ID", help="the cluster's id in Run:ai"),),
    ),
)
