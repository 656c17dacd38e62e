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
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NoReturn

from toposcope.cli.errors import EXPECTED, CommandError, complaint
from toposcope.cli.progress import ProgressLine
from toposcope.cli.terminal import Screen, complain, screen
from toposcope.kube import reflector
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.snapshot.decode import paused_gc
from toposcope.snapshot.live import load_published
from toposcope.snapshot.model import Snapshot
from toposcope.ui import live
from toposcope.ui.facts import Facts, StaleFact

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
    source = live.LiveSource(cluster, facts, "toposcope", can_read_pods=not arguments.no_pods)
    logger = logging.getLogger(reflector.__name__)
    with contextlib.ExitStack() as stack:
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)  # the page says it once
        stack.callback(source.close)
        source.start()
        _wait_until_complete(facts, wake)
        arguments.watched = partial(_snapshot, facts)
        page = _Page(arguments.output)
        while True:
            wake.clear()
            output = _output(command, arguments, work, page.text)
            page.show(output, facts.stale())
            if wake.wait(_LOOK_AGAIN_SECONDS):
                threading.Event().wait(_BURST_SECONDS)


@dataclass(frozen=True, slots=True)
class _Output:
    """What the work has printed for a screen."""

    screen: Screen
    text: str
    complaints: str
    """What it wrote to standard error."""


def _output(
    command: str, arguments: argparse.Namespace, work: Callable[[Screen], int], last_text: str
) -> _Output:
    """What the work prints now; after an error the last text, with the error on standard error.

    Raises the error where there is no last text.
    """
    is_wide = getattr(arguments, "output", "") == "wide"
    now = screen(can_page=False, is_wide=is_wide)
    text = io.StringIO()
    complaints = io.StringIO()
    try:
        with paused_gc(), contextlib.redirect_stderr(complaints):
            work(replace(now, stream=text))
    except EXPECTED as error:
        if not last_text:
            raise
        return _Output(now, last_text, complaint(command, arguments, error))
    return _Output(now, text.getvalue(), complaints.getvalue())


def _wait_until_complete(facts: Facts, wake: threading.Event) -> None:
    """Wait until everything has been read once. Raises KubeError where something cannot be."""
    with ProgressLine(sys.stderr) as progress:
        progress("nodes", 0)
        while not facts.is_complete:
            wake.wait(1.0)
            wake.clear()
            stale = facts.stale()
            if stale:
                raise KubeError(_reasons(stale))


def _snapshot(facts: Facts, client: ApiClient, *, has_published: bool) -> Snapshot:
    """The snapshot that the reflectors have; published resources are read now. Raises KubeError."""
    now = replace(facts.snapshot(), taken_at=datetime.now(UTC))
    if not has_published:
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
        self._last_complaints = ""
        self._lost = ""
        """The time since when there has been no answer; empty while there are answers."""

    def show(self, output: _Output, stale: StaleFact | None) -> None:
        """Print the page if it differs from the last one.

        A terminal is cleared first, a pipe gets the page below a line with the time.
        """
        now = datetime.now().astimezone()
        screen = output.screen
        text = output.text
        complaints = self._with_state_of_answers(output.complaints, stale, now)
        if text == self.text and complaints == self._last_complaints:
            return

        if screen.height is not None and os.environ.get("TERM") != "dumb":
            rows = screen.height - 3 - complaints.count("\n")
            screen.stream.write(_CLEAR + _cut(text, rows))
        elif text != self.text:
            self._append(screen, text, now)
        screen.stream.flush()
        if complaints:
            complain(complaints.rstrip())

        self.text = text
        self._last_complaints = complaints

    def _with_state_of_answers(
        self, complaints: str, stale: StaleFact | None, now: datetime
    ) -> str:
        """What to say: that the server does not answer, that it answers again, or `complaints`."""
        if stale:
            if not self._lost:
                began = now - timedelta(seconds=stale.seconds)
                self._lost = f"{began:%H:%M:%S}"
            return (
                f"warning: no answer since {self._lost}; "
                f"showing the last known state: {_reasons(stale)}"
            )
        if self._lost:
            self._lost = ""
            return complaints or "the API server answers again"
        return complaints

    def _append(self, screen: Screen, text: str, now: datetime) -> None:
        if self.text:
            screen.stream.write(self._between.format(f"{now:%Y-%m-%d %H:%M:%S}"))
        screen.stream.write(text)


def _cut(text: str, rows: int) -> str:
    """The first lines of a text, and how many more there are."""
    lines = text.splitlines()
    shown = lines[:rows]
    if len(lines) > rows:
        shown.append(f"... and {len(lines) - rows} more lines; run it without --watch to see all")
    return "".join(f"{line}\n" for line in shown)


def _reasons(stale: StaleFact) -> str:
    """Why collections cannot be read, each reason once: mostly all have the same."""
    return "; ".join(dict.fromkeys(stale.why.values()))
