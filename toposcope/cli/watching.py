"""`--watch`: print again whenever something changes, until Ctrl-C.

Nodes, pods and ClusterTopologies are followed by the reflectors that also feed the page; what else
a command reads is read again when these change, and every `_LOOK_AGAIN_SECONDS`.
"""

import argparse
import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NoReturn

from toposcope.cli.errors import EXPECTED, CommandError, complaint
from toposcope.cli.progress import Progress
from toposcope.cli.terminal import Screen, complain, screen
from toposcope.kube import reflector
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.snapshot.decode import paused_gc
from toposcope.snapshot.live import load_published
from toposcope.snapshot.model import Snapshot
from toposcope.ui import live
from toposcope.ui.facts import Facts, Stale

_LOOK_AGAIN_SECONDS: Final = 10.0
_BURST_SECONDS: Final = 0.5
"""In which changes are collected: a node that goes takes its pods along."""
_CLEAR: Final = "\x1b[H\x1b[2J"


def watch(command: str, arguments: argparse.Namespace, work: Callable[[Screen], int]) -> NoReturn:
    """Do the work again and again, until KeyboardInterrupt.

    An error of the first time is raised, later ones are shown.
    """
    if arguments.files:
        raise CommandError("--watch follows a cluster, --from reads files; give one or the other")

    wake = threading.Event()
    cluster = load(arguments.kubeconfig, context=arguments.context)
    facts = Facts(cluster.server, live.EXPECTED, wake.set)
    source = live.LiveSource(cluster, facts, "toposcope", pods=not arguments.no_pods)
    logger = logging.getLogger(reflector.__name__)
    with contextlib.ExitStack() as stack:
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)  # the page says it once
        stack.callback(source.close)
        source.start()
        _wait_until_complete(facts, wake)
        arguments.known = partial(_snapshot, facts)
        page = _Page(arguments.output)
        while True:
            wake.clear()
            now = screen(paging=False, wide=getattr(arguments, "output", "") == "wide")
            text, said = page.text, io.StringIO()
            try:
                out = io.StringIO()
                with paused_gc(), contextlib.redirect_stderr(said):
                    work(replace(now, stream=out))
                text = out.getvalue()
            except EXPECTED as error:
                if not text:
                    raise
                said = io.StringIO(complaint(command, arguments, error))
            page.show(now, text, said.getvalue(), facts.stale())
            if wake.wait(_LOOK_AGAIN_SECONDS):
                threading.Event().wait(_BURST_SECONDS)


def _wait_until_complete(facts: Facts, wake: threading.Event) -> None:
    """Wait until everything has been read once. Raises KubeError where something cannot be."""
    with Progress(sys.stderr) as progress:
        progress("nodes", 0)
        while not facts.complete:
            wake.wait(1.0)
            wake.clear()
            stale = facts.stale()
            if stale:
                raise KubeError(_reasons(stale))


def _snapshot(facts: Facts, client: ApiClient, *, published: bool) -> Snapshot:
    """The snapshot that the reflectors have; what is `published` is read now. Raises KubeError."""
    now = replace(facts.snapshot(), taken_at=datetime.now(UTC))
    if not published:
        return now

    read = load_published(client, client.server)
    return replace(
        read,
        warnings=(*now.warnings, *read.warnings),
        taken_at=now.taken_at,
        nodes=now.nodes,
        pods=now.pods,
        topologies=now.topologies,
        catalogue=now.catalogue,
    )


class _Page:
    """The page that was printed last."""

    def __init__(self, output: str) -> None:
        self._between = "" if output == "json" else "--- # {}\n"
        self.text = ""
        self._said = ""
        self._lost = ""
        """The time since when there has been no answer; empty while there are answers."""

    def show(self, screen: Screen, text: str, said: str, stale: Stale | None) -> None:
        """Print the page if it differs from the last one.

        A terminal is cleared first, a pipe gets the page below a line with the time.
        """
        now = datetime.now().astimezone()
        if stale:
            self._lost = self._lost or f"{now - timedelta(seconds=stale.seconds):%H:%M:%S}"
            said = (
                f"warning: no answer since {self._lost}, "
                f"showing the state of that time: {_reasons(stale)}"
            )
        elif self._lost:
            self._lost = ""
            said = said or "the API server answers again"

        if (text, said) == (self.text, self._said):
            return

        if screen.height is not None and os.environ.get("TERM") != "dumb":
            rows = screen.height - 3 - said.count("\n")
            screen.stream.write(_CLEAR + _cut(text, rows))
        elif text != self.text:
            self._append(screen, text, now)
        screen.stream.flush()
        if said:
            complain(said.rstrip())

        self.text, self._said = text, said

    def _append(self, screen: Screen, text: str, now: datetime) -> None:
        if self.text:
            screen.stream.write(self._between.format(f"{now:%Y-%m-%d %H:%M:%S}"))
        screen.stream.write(text)


def _cut(text: str, rows: int) -> str:
    """The first lines of a text, and how many more there are."""
    lines = text.splitlines()
    shown = lines[:rows]
    if len(lines) > rows:
        shown.append(f"... and {len(lines) - rows} more lines: without --watch")
    return "".join(f"{line}\n" for line in shown)


def _reasons(stale: Stale) -> str:
    """Why collections cannot be read, each reason once: mostly all have the same."""
    return "; ".join(dict.fromkeys(stale.why.values()))
