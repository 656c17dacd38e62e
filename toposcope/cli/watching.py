"""`--watch`: print again whenever something changes, until Ctrl-C.

Nodes, pods and ClusterTopologies are followed by the reflectors that also feed the page; what else
a command reads is read again when these change, and every `_LOOK_AGAIN` seconds.
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
from toposcope.ui.facts import Facts

_LOOK_AGAIN: Final = 10.0
_BURST: Final = 0.5
"""Seconds in which changes are collected: a node that goes takes its pods along."""
_CLEAR: Final = "\x1b[H\x1b[2J"


def watch(command: str, arguments: argparse.Namespace, work: Callable[[Screen], int]) -> NoReturn:
    """Do the work again and again, until KeyboardInterrupt.

    Raises what the first time raises; later this is said.
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
        with Progress(sys.stderr) as progress:
            progress("nodes", 0)
            while not facts.complete:
                wake.wait(1.0)
                wake.clear()
                if stale := facts.stale():
                    raise KubeError(_reasons(stale[1]))
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
            if wake.wait(_LOOK_AGAIN):
                threading.Event().wait(_BURST)


def _snapshot(facts: Facts, client: ApiClient, *, published: bool) -> Snapshot:
    """What the reflectors have, as `load_live` reads it; `published` is read now.

    Raises KubeError.
    """
    now = replace(facts.snapshot(), taken_at=datetime.now(UTC))
    if not published:
        return now
    read = load_published(client, client.server)
    read = replace(read, warnings=(*now.warnings, *read.warnings), taken_at=now.taken_at)
    return replace(
        read, nodes=now.nodes, pods=now.pods, topologies=now.topologies, catalogue=now.catalogue
    )


class _Page:
    """What was printed last."""

    def __init__(self, output: str) -> None:
        self._between = "" if output == "json" else "--- # {}\n"
        self.text = self._said = self._lost = ""

    def show(
        self, screen: Screen, text: str, said: str, stale: tuple[float, list[str]] | None
    ) -> None:
        """Print what differs: a terminal shows the whole afresh, a pipe gets it below a line with the time."""
        now = datetime.now().astimezone()
        if stale:
            self._lost = self._lost or f"{now - timedelta(seconds=stale[0]):%H:%M:%S}"
            said = f"warning: no answer since {self._lost}, showing the state of that time: {_reasons(stale[1])}"
        elif self._lost:
            self._lost, said = "", said or "the API server answers again"
        if (text, said) == (self.text, self._said):
            return
        if screen.height is not None and os.environ.get("TERM") != "dumb":
            lines, room = text.splitlines(), screen.height - 3 - said.count("\n")
            more = (
                [f"... and {len(lines) - room} more lines: without --watch"]
                if len(lines) > room
                else []
            )
            screen.stream.write(_CLEAR + "".join(f"{line}\n" for line in lines[:room] + more))
        elif text != self.text:
            screen.stream.write(
                (self._between.format(f"{now:%Y-%m-%d %H:%M:%S}") if self.text else "") + text
            )
        screen.stream.flush()
        if said:
            complain(said.rstrip())
        self.text, self._said = text, said


def _reasons(why: list[str]) -> str:
    """Why collections cannot be read; mostly it is the same for all."""
    return "; ".join(dict.fromkeys(reason.partition(": ")[2] for reason in why))
