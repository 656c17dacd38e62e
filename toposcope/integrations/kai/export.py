"""KAI's Topology."""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.export import (
    LEVELS_WITHOUT_NAMES,
    ExportOptions,
    LevelsFormat,
    Variant,
)
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.kai import topology


def _plain(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
    return topology.write(levels)


def _aliases(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
    return topology.write_aliases(levels)


FORMATS: Final = (
    LevelsFormat(
        name="kai",
        variants=(
            Variant(
                "plain",
                _plain,
                f"{LEVELS_WITHOUT_NAMES} (--variant aliases writes them, for KAI v0.17 and later)",
            ),
            Variant("aliases", _aliases),
        ),
    ),
)
