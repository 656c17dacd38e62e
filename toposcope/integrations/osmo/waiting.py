"""OSMO: what its workflows need of the pool that they name."""

from typing import Final

from toposcope.integrations.framework.waiting import Waiting


class _Osmo(Waiting):
    feature_rules = ("osmo/kai-topology",)


WAITING: Final = _Osmo()
