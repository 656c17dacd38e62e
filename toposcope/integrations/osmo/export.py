"""The levels of an OSMO pool."""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.export import ExportOptions, LevelsFormat, Variant
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.osmo import topology


def _pool(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
    return topology.write(levels)


FORMATS: Final = (
    LevelsFormat(name="osmo", variants=(Variant("pool", _pool),), has_json_default=True),
)
