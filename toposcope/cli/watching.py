"""`--watch`: print it again whenever something has changed, until Ctrl-C.

Nodes, pods and ClusterTopologies are followed by the reflectors that also feed the page; what else a command reads is
read again when these change, and every `_LOOK_AGAIN` seconds.
"""

import argparse
import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from toposcope.cli.command import EXPECTED, CommandError, complaint, screen_for
from toposcope.cli.progress import Progress
from toposcope.cli.streams import say
from toposcope.cli.terminal import Screen
from toposcope.kube import reflector
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.snapshot.decode import paused_gc
from toposcope.snapshot.live import load_published
from toposcope.snapshot.model import Snapshot
from toposcope.ui import live
from toposcope.ui.facts import Facts

_LOOK_AGAIN: Final = 10.0
_BURST: Final = 0.5
"""Seconds in which changes are collected: a node that goes takes its pods along."""
_CLEAR: Final = "\x1b[H\x1b[2J"


class Known:
    """The cluster as the reflectors have it."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def snapshot(self, client: ApiClient, *, published: bool) -> Snapshot:
        """As `load_live` reads it; `published` is read now. Raises KubeError."""
        now = replace(self._facts.snapshot(), taken_at=datetime.now(UTC))
        if not published:
            return now
        read = load_published(client, client.server)
        warnings = (*now.warnings, *read.warnings)
        return replace(
            now, published=read.published, served=read.served, objects=read.objects, grove=read.grove, warnings=warnings
        )


def watch(command: str, arguments: argparse.Namespace, work: Callable[[Screen], int]) -> NoReturn:
    """Do the work again and again, until KeyboardInterrupt. Raises what the first time raises; later this is said."""
    if arguments.files:
        raise CommandError("--watch follows a cluster, --from reads files; give one or the other")
    wake = threading.Event()
    cluster = load(arguments.kubeconfig, context=arguments.context)
    facts = Facts(cluster.server, live.EXPECTED, wake.set)
    source = live.LiveSource(cluster, facts, "toposcope", pods=not arguments.no_pods)
    with _quiet(), contextlib.closing(source):
        source.start()
        with Progress(sys.stderr) as progress:
            progress("nodes", 0)
            while not facts.complete:
                wake.wait(1.0)
                wake.clear()
                if stale := facts.stale():
                    raise KubeError(_reasons(stale[1]))
        arguments.known = Known(facts)
        page = _Page(arguments.output)
        while True:
            wake.clear()
            wanted = screen_for(arguments, paging=False)
            text, said = page.text, ""
            try:
                text, said = _done(wanted, work)
            except EXPECTED as error:
                if not text:
                    raise
                said = complaint(command, arguments, error)
            page.show(wanted, text, said, facts.stale())
            if wake.wait(_LOOK_AGAIN):
                threading.Event().wait(_BURST)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the reflectors log is said once, by the page."""
    logger = logging.getLogger(reflector.__name__)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _done(wanted: Screen, work: Callable[[Screen], int]) -> tuple[str, str]:
    """What the work prints, and what it says on standard error."""
    out, said = io.StringIO(), io.StringIO()
    with paused_gc(), contextlib.redirect_stderr(said):
        work(replace(wanted, stream=out))
    return out.getvalue(), said.getvalue()


class _Page:
    """What was printed last."""

    def __init__(self, output: str) -> None:
        self._between = {"json": "", "yaml": "---\n", "name": "\n"}.get(output, "--- {}\n")
        self.text = self._said = self._lost = ""

    def show(self, screen: Screen, text: str, said: str, stale: tuple[float, list[str]] | None) -> None:
        """Print what differs: a terminal shows the whole afresh, a pipe gets it below a line with the time."""
        now = datetime.now().astimezone()
        if stale:
            self._lost = self._lost or f"{now - timedelta(seconds=stale[0]):%H:%M:%S}"
            said = f"warning: no answer since {self._lost}, what is shown is as of then: {_reasons(stale[1])}"
        elif self._lost:
            self._lost = ""
            said = said or "the API server answers again"
        new, news = text != self.text, said != self._said
        if screen.height is not None and os.environ.get("TERM") != "dumb":
            if new or news:
                lines = text.splitlines()
                room = screen.height - 3 - said.count("\n")
                more = [f"... and {len(lines) - room} more lines: without --watch"] if len(lines) > room else []
                screen.stream.write(_CLEAR + "".join(f"{line}\n" for line in lines[:room] + more))
        elif new:
            between = self._between.format(f"{now:%Y-%m-%d %H:%M:%S}") if self.text else ""
            screen.stream.write(between + text)
        screen.stream.flush()
        if said and (new or news):
            say(said.rstrip())
        self.text, self._said = text, said


def _reasons(why: list[str]) -> str:
    """`nodes, pods: connection refused`: mostly all have the same reason."""
    collections: dict[str, list[str]] = {}
    for one in why:
        what, _, reason = one.partition(": ")
        collections.setdefault(reason, []).append(what)
    return "; ".join(f"{', '.join(what)}: {reason}" for reason, what in collections.items())
