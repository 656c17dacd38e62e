"""DisaggregatedSet: which pods belong to which of its slices."""

from typing import Final

from toposcope.integrations.disaggregatedset.api import DISAGGREGATED_SETS, SLICE
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.waiting import Waiting


class _DisaggregatedSet(Waiting):
    subjects = (DISAGGREGATED_SETS,)
    level_rules = ("disaggregatedset/label-exists",)

    def copy_label(self, group: Group) -> str:
        return SLICE if group.anti_affinity == SLICE else ""


WAITING: Final = _DisaggregatedSet()
