"""What is different between two looks at a cluster: tests/fixtures/changes.yaml."""

from typing import Any

import msgspec
from tests.snapshot.clusters import snapshot, view
from tests.support.saved import cluster_topology
from tests.support.tables import each_row
from toposcope.api.levels import Level
from toposcope.snapshot.changes import Change, changes
from toposcope.snapshot.model import Published
from toposcope.snapshot.scope import select_scope


class Seen(msgspec.Struct, forbid_unknown_fields=True):
    nodes: list[dict[str, Any]]
    """What `view` takes."""
    ready: str | None = None
    """Whether the ClusterTopology is."""
    levels: list[str] = []
    """Of what was published."""


class Compared(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    before: Seen
    after: Seen
    changes: list[Change]


@each_row("changes.yaml", Compared, ids=lambda row: row.case)
def test_what_has_changed(row: Compared) -> None:
    scopes, published = [], []
    for seen in (row.before, row.after):
        conditions = [{"type": "Ready", "status": seen.ready, "reason": "Because"}] if seen.ready else []
        nodes = [view(**node) for node in seen.nodes]
        scopes.append(select_scope(snapshot(nodes, (), cluster_topology({"conditions": conditions}))))
        levels = tuple(Level("", key) for key in seen.levels)
        published.append([Published("kai.scheduler/v1alpha1", "Topology", "cluster", levels, {})] if levels else [])
    (before, after), (old, new) = scopes, published
    assert changes(before, after, old, new) == row.changes
