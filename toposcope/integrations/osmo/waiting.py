"""OSMO: what its workflows need from their pool."""

from typing import Final

from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.osmo.scheduler import TOPOLOGY_RULE


class _Osmo(Waiting):
    feature_rules = (TOPOLOGY_RULE,)


WAITING: Final = _Osmo()
