"""Whether a gang shares the domain that it requires, as a document, and what shows why not."""

from collections.abc import Iterator
from typing import Any, Final

from toposcope.planning.kept import KeptPlacement
from toposcope.planning.kept_gangs import KeptGang
from toposcope.text import Command, shell

_MOST_NODES: Final = 3


def kept_gang_document(kept: KeptGang) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of a gang; docs/check.md describes it."""
    parts = []
    for part in kept.parts:
        parts.append(
            {
                "name": part.name or None,
                "required": part.required or None,
                "levelKnown": part.is_level_known,
                "cannotBeRead": part.unread or None,
                "result": part.placement.result.value,
                **kept_document(part.placement),
            }
        )
    return {
        "kind": kept.gang.kind,
        "namespace": kept.gang.namespace,
        "name": kept.gang.name,
        "result": kept.result.value,
        "parts": parts,
    }


def kept_commands(observed: KeptPlacement, key: str) -> Iterator[Command]:
    """What shows the label of the level on a node of each domain, and who wrote it."""
    if observed.broken_by is None:
        return
    nodes: dict[str, None] = {}
    for changed in observed.changed:
        nodes[changed.pod.node] = None
    for domain in observed.domains:
        nodes[domain.pods[0].node] = None
    names = list(nodes)[:_MOST_NODES]
    template = "kubectl get node"
    for _ in names:
        template += " {}"
    yield shell(template + " -L {}", *names, key)
    if observed.changed:
        node = observed.changed[0].pod.node
        yield shell("kubectl get node {} -o yaml --show-managed-fields", node)


def kept_document(observed: KeptPlacement) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of it; docs/check.md describes it."""
    domains = []
    for domain in observed.domains:
        pods = [{"pod": pod.name, "node": pod.node} for pod in domain.pods]
        domains.append({"domain": list(domain.path), "pods": pods})

    unread = []
    for place in observed.unread:
        unread.append(
            {
                "pod": place.pod.name,
                "node": place.pod.node,
                "reason": place.reason.value,
                "key": place.key or None,
            }
        )

    changed = []
    for label in observed.changed:
        changed.append(
            {
                "pod": label.pod.name,
                "node": label.pod.node,
                "key": label.key,
                "then": label.value_then,
                "now": label.value_now or None,
            }
        )

    shared = []
    for intruder in observed.intruders:
        pod = intruder.pod
        shared.append({"namespace": pod.namespace, "pod": pod.name, "domain": intruder.domain})
    return {
        "placed": observed.placed,
        "expected": observed.expected or None,
        "domains": domains,
        "unread": unread,
        "changed": changed,
        "sharedWith": shared,
        "brokenBy": observed.broken_by.value if observed.broken_by else None,
    }
