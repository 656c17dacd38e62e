"""What a page knows: a snapshot, and the deltas that came after it."""

from __future__ import annotations

from typing import Any

import msgspec

from toposcope.ui import protocol
from toposcope.ui.broadcaster import Broadcaster, Event


def decoded(snapshot: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The nodes of a snapshot one by one, as rows."""
    nodes = snapshot["nodes"]
    rows = {}
    for i, name in enumerate(nodes["name"]):
        rows[name] = {
            "name": name,
            "gpus": nodes["gpus"][i],
            "free": None if nodes["free"] is None else nodes["free"][i],
            "marks": _listed(nodes["marks"], i),
            "views": _listed(nodes["views"], i),
            "facts": _there(nodes["facts"], i, name),
            "labels": _there(nodes["labels"], i, name),
            "reasons": nodes["reasons"].get(str(i), []),
            "apart": nodes["apart"].get(str(i), ""),
        }
    return rows


def _listed(column: dict[str, Any], i: int) -> list[str]:
    found: list[str] = column["values"][column["codes"][i]]
    return found


def _there(columns: dict[str, Any], i: int, name: str) -> dict[str, str]:
    found = {}
    for key, column in columns.items():
        code = column["codes"][i]
        if code != protocol.ABSENT:
            found[key] = name if code == protocol.OWN_NAME else column["values"][code]
    return found


class Page:
    """A page that follows a broadcaster."""

    def __init__(self, broadcaster: Broadcaster) -> None:
        self._broadcaster = broadcaster
        self.resets = 0
        self.changes: list[str] = []
        self._fetch()

    def _fetch(self) -> None:
        found = fetched(self._broadcaster)
        self.rows = decoded(found)
        self.views = found["views"]
        self.others = found["otherNodes"]
        self._place = self._broadcaster.number_of(found["id"])

    def follow(self) -> None:
        """Take in what has come since."""
        assert self._place is not None
        events = self._broadcaster.after(self._place)
        if events is None or any(event.name == "reset" for event in events):
            self.resets += 1
            self._fetch()
            return
        for event in events:
            self._take(event)
            self._place = event.number

    def _take(self, event: Event) -> None:
        delta = msgspec.json.decode(event.data)
        msgspec.convert(delta, protocol.Delta)
        for row in delta["put"]:
            self.rows[row["name"]] = row
        for name in delta["gone"]:
            del self.rows[name]
        self.views = delta["views"] or self.views
        self.others = delta["otherNodes"]
        self.changes += [change["text"] for change in reversed(delta["changes"])]


def fetched(broadcaster: Broadcaster) -> dict[str, Any]:
    """A snapshot as a page gets it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(broadcaster.snapshot()))
    return found
