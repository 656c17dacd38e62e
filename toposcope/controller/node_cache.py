"""All nodes by name, and as a table that is brought up to date with what changed instead of being made anew."""

import gc
from collections.abc import Callable
from typing import Final

from toposcope.controller.informer import Index
from toposcope.topology.live_table import LiveTable
from toposcope.topology.node import NodeFacts
from toposcope.topology.platforms import PLACEHOLDERS

_MANY: Final = 20
"""When one node in so many has changed, a new table costs less than the changes."""


class NodeIndex(Index[NodeFacts]):
    """`table` belongs to one thread, everything else may be called from any."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._changed_names: set[str] = set()
        self._table: LiveTable | None = None

    def table(self, placeholders: frozenset[str] = PLACEHOLDERS) -> LiveTable:
        """All nodes; the same table each time, brought up to date, unless too much has changed."""
        with self._lock:
            names, self._changed_names = self._changed_names, set()
            table = self._table
            if table is None or table.placeholders != placeholders or _MANY * len(names) > len(self._items):
                table = self._table = LiveTable(dict(self._items), placeholders)
                return table
            changes = {name: self._items.get(name) for name in names}
        if changes:
            table.update(changes)
        return table

    def settle(self) -> bool:
        """Prepare for small changes after a new table; whether there was something to prepare.

        The next look then begins to count, and what lives as long as the nodes is taken from the garbage collector,
        whose pauses would grow with the cluster.
        """
        if self._table is None or self._table.keeps_count:
            return False
        self._table.update({})
        gc.collect()
        gc.freeze()
        return True

    def _moved(self, name: str | None) -> None:
        if name is None:
            self._table = None
            self._changed_names.clear()
        else:
            self._changed_names.add(name)
