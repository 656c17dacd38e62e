"""OSMO: what its workflows need of the pool that they name."""

from typing import Final

from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.osmo.scheduler import TOPOLOGY_RULE


class _Osmo(Waiting):
    feature_rules = (TOPOLOGY_RULE,)


WAITING: Final = _Osmo()
