"""Say on one screen whether all is well: controller, nodes, levels, published resources, and what to do next.

Exit code 1 if something needs attention.
"""

import argparse
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from toposcope.api import conditions
from toposcope.cli import command, errors
from toposcope.cli.output import counted, show_document
from toposcope.cli.terminal import Screen, Whole
from toposcope.controller.options import LEASE
from toposcope.integrations.framework import features
from toposcope.integrations.framework.document import Field
from toposcope.kube.errors import ApiError
from toposcope.snapshot.filters import marks
from toposcope.snapshot.scope import Scope, select_scope
from toposcope.text import Command, shell

_WIDTH: Final = 80
_MOST: Final = 5
_NEXT: Final = {
    conditions.LEVELS_COVERED: "toposcope nodes --state left-out",
    conditions.AGENTS_REPORTING: "toposcope nodes --state no-agent",
    conditions.FABRIC_HEALTHY: "toposcope nodes --state degraded",
    conditions.HIERARCHY_CONSISTENT: "toposcope levels {}",
    conditions.RAILS_CONSISTENT: "toposcope nodes --state miscabled",
    conditions.LEVELS_AVAILABLE: "toposcope levels {}",
}
_CONTROLLER: Final = shell("kubectl get pods -A -l app.kubernetes.io/component=controller")
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"


@dataclass(frozen=True, slots=True)
class _Finding:
    """Something that is not as it should be."""

    what: str
    message: str
    next: Command


@dataclass(frozen=True, slots=True)
class _Controller:
    """Who keeps the status up to date, and whether it does."""

    words: str
    lost: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope status`."""
    command.add_topology(parser)
    command.add_source_arguments(parser)
    command.add_watch(parser, no_pods=True)


@command.on_screen("status")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the state; 1 if something needs attention."""
    snapshot = command.load_snapshot(arguments, pods=False)
    scope = select_scope(snapshot, arguments.topology)
    controller = _controller(arguments, datetime.now(UTC))
    found = list(_findings(scope, controller))
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document(scope, controller, found))
    elif arguments.output == "name":
        screen.show(finding.what for finding in found)
    else:
        screen.show(_page(screen, scope, controller, found, wide=arguments.output == "wide"))
    return errors.EXIT_PROBLEMS if found else errors.EXIT_OK


def _controller(arguments: argparse.Namespace, now: datetime) -> _Controller:
    """By its Lease: conditions of a controller that is gone stay as they were. Raises KubeError."""
    from toposcope.cli.catalogue import controller_namespaces  # noqa: PLC0415 - not for files
    from toposcope.kube.client import find  # noqa: PLC0415 - same

    if arguments.files:
        return _Controller("not known from files")
    try:
        with command.api_client(arguments) as client:
            paths = (
                f"{_LEASES}/{namespace}/leases/{LEASE}"
                for namespace in controller_namespaces(client)
            )
            lease = next(filter(None, (find(client, path) for path in paths)), None)
    except ApiError as error:
        if not error.forbidden:
            raise
        return _Controller(f"not known: these credentials cannot get the Lease {LEASE}")
    if lease is None:
        return _Controller(f"there is no Lease {LEASE}", lost=True)
    spec = Field(lease) / "spec"
    holder, renewed = (spec / "holderIdentity").text(), (spec / "renewTime").text()
    if holder is None or renewed is None:
        return _Controller(f"nobody holds the Lease {LEASE}", lost=True)
    age = (now - datetime.fromisoformat(renewed)).total_seconds()
    if age > 2 * (spec / "leaseDurationSeconds").number(15):
        return _Controller(f"{holder} has not renewed its Lease since {renewed}", lost=True)
    return _Controller(f"{holder} holds the Lease")


def _findings(scope: Scope, controller: _Controller) -> Iterator[_Finding]:
    """The worst first."""
    if controller.lost:
        yield _Finding("controller", f"{controller.words}: the rest may be stale", _CONTROLLER)
    if scope.topology is None:
        text = "there is no ClusterTopology, so nothing is published: the levels below come from labels alone"
        yield _Finding("topology", text, shell("toposcope suggest"))
        return
    reported = features.conditions({"status": scope.topology.status})
    if not reported:
        text = "the controller has written no status for it"
        yield _Finding("controller", text, _CONTROLLER)
    for condition in sorted(reported, key=lambda one: one.status != "False"):
        known = condition.type == conditions.READY or condition.reason == conditions.NO_RAILS
        if condition.status != "True" and not known:
            template = _NEXT.get(condition.type, "kubectl describe gtopo {}")
            next_step = shell(template, scope.name) if "{}" in template else shell(template)
            what = f"{condition.type}={condition.status}"
            yield _Finding(what, f"{condition.reason}: {condition.message}", next_step)


def document(scope: Scope, controller: _Controller, found: Sequence[_Finding]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    status = scope.topology.status if scope.topology else {}
    return {
        "topology": scope.name or None,
        "healthy": not found,
        "controller": controller.words,
        "nodes": len(scope.nodes),
        "gpus": sum(node.gpus for node in scope.nodes),
        "states": dict(Counter(mark.value for node in scope.nodes for mark in marks(node))),
        "levels": [level.domain for level in scope.levels],
        "published": list(_published(status)),
        "findings": [
            {"about": finding.what, "message": finding.message, "next": finding.next}
            for finding in found
        ],
    }


def _published(status: Any) -> Iterator[dict[str, Any]]:
    for entry in (Field(status) / "published").items():
        words = {name: (entry / name).text() or "" for name in ("apiVersion", "kind", "name")}
        yield {**words, "inSync": (entry / "inSync").flag()}


def _page(
    screen: Screen, scope: Scope, controller: _Controller, found: Sequence[_Finding], *, wide: bool
) -> Iterator[str]:
    whole = document(scope, controller, found)
    name = f"ClusterTopology {scope.name}" if scope.topology else "no ClusterTopology"
    verdict = (
        screen.paint("healthy", "green")
        if not found
        else screen.paint(counted(len(found), "problem"), "red")
    )
    yield f"{name}: {verdict}"
    states = ", ".join(f"{count:,} {mark}" for mark, count in whole["states"].items())
    published = (
        f"{resource['kind']}.{resource['apiVersion'].partition('/')[0]}{'' if resource['inSync'] else ' (not in sync)'}"
        for resource in whole["published"]
    )
    rows = {
        "controller": controller.words,
        "nodes": f"{whole['nodes']:,} with {counted(whole['gpus'], 'GPU')}"
        + (f": {states}" if states else ""),
        "levels": " > ".join(whole["levels"]) or "none",
        "published": ", ".join(published) or "nothing",
    }
    for title, text in rows.items():
        yield from _wrapped(f"  {title:<12}", text, most=2)
    for finding in found if wide else found[:_MOST]:
        yield from _wrapped("! ", f"{finding.what}: {finding.message}", most=None if wide else 2)
        yield Whole(f"  next: {finding.next}")
    if len(found) > _MOST and not wide:
        yield f"and {len(found) - _MOST} more: toposcope status -o wide"


def _wrapped(first: str, text: str, most: int | None) -> list[str]:
    indent = " " * len(first)
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=indent,
        max_lines=most,
        placeholder=" ...",
    )
