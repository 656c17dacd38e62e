"""Whether there would be room if the nodes that lack a level carried the labels of others."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.explain.context import Context
from toposcope.hierarchy.coverage import level_value
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.verdict import Kind, Verdict
from toposcope.placement.check import Checker
from toposcope.snapshot.model import NodeView, Snapshot

_MOST_DOMAINS: Final = 8
"""The domains to which the nodes are tried to belong, the largest first."""
_ORDER: Final[tuple[Kind, ...]] = ("fits", "unclear", "full", "never")
"""The best verdict first."""
_Path = tuple[tuple[str, str], ...]
"""The labels of a domain, from the broadest level down."""


def is_better_once_labelled(context: Context, workload: Workload, verdict: Verdict) -> bool:
    """Whether the verdict would be better if they all belonged to one of the domains."""
    keys = [level.key for level in context.levels(workload) if level.key != HOSTNAME]
    snapshot = context.checker.snapshot
    lacking = set()
    domains: Counter[_Path] = Counter()
    for node in context.nodes(workload):
        path = _path(snapshot, node, keys)
        if len(path) < len(keys):
            lacking.add(node.name)
        else:
            domains[path] += 1

    for path, _ in domains.most_common(_MOST_DOMAINS):
        labelled = replace(snapshot, nodes=tuple(_labelled(snapshot, lacking, dict(path))))
        checker = Checker(labelled, own=context.ownership.pods)
        then = checker.verdict(workload, with_remedies=False)
        if then and _ORDER.index(then.kind) < _ORDER.index(verdict.kind):
            return True
    return False


def _path(snapshot: Snapshot, node: NodeView, keys: Sequence[str]) -> _Path:
    """The labels of its domains; those that it lacks are left out."""
    placeholders = snapshot.catalogue.placeholders
    path = []
    for key in keys:
        value = level_value(node, key, placeholders)
        if value is not None:
            path.append((key, value))
    return tuple(path)


def _labelled(
    snapshot: Snapshot, lacking: set[str], labels: Mapping[str, str]
) -> Iterator[NodeView]:
    """All nodes, those that lack a level with these labels, and with their names as hostname."""
    for node in snapshot.nodes:
        if node.name not in lacking:
            yield node
            continue
        hostname = node.label(HOSTNAME) or node.name
        yield node.with_labels({HOSTNAME: hostname, **labels})
