"""Keeps a document about the agent's own node in a file, for `toposcope node-endpoint`.

It has a thread of its own, so that a full, slow or broken disk holds up neither the agent's loop
nor its watches. The file is replaced whole, and only when its content changes.
"""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from toposcope.agent.topology_document import topology_document
from toposcope.integrations.node_plan import NodePlan
from toposcope.kube.runtime import REAL, Runtime

log = logging.getLogger("agent")

RETRY_SECONDS: Final = 30.0
"""How long after a failed write the next one comes."""
PLAN_SECONDS: Final = 30.0
"""How long the controller's plan may take to arrive: until then no path is known, and a file of
the agent before this one says more."""


class TopologyFile:
    """The file, and what it is made of."""

    def __init__(self, file: Path, node_name: str, *, runtime: Runtime = REAL) -> None:
        self._file = file
        self._new_file = file.with_name(f".{file.name}.new")
        self._node_name = node_name
        self._runtime = runtime
        self._has_changed = runtime.event()
        self._without_plan_at = runtime.monotonic() + PLAN_SECONDS
        self._plan: NodePlan | None = None
        self._metadata: Mapping[str, Any] | None = None
        self._written: str | None = None
        self._last_error = ""

    def follow(self, plan: NodePlan) -> None:
        """Derive the path from this plan from now on; called from any thread."""
        self._plan = plan
        self._has_changed.set()

    def node_seen(self, metadata: Mapping[str, Any]) -> None:
        """Describe the Node with this metadata from now on; called from any thread."""
        self._metadata = metadata
        self._has_changed.set()

    def start(self) -> None:
        """Keep the file in a thread that ends with the process."""
        self._runtime.thread("topology-file", self._run)

    def _run(self) -> None:
        while True:
            pause = self.keep()
            self._has_changed.wait(pause)
            self._has_changed.clear()

    def keep(self) -> float | None:
        """Write the file if it has to change.

        Seconds until the next attempt is due though nothing changes; None if none is. Never raises
        OSError.
        """
        metadata, plan = self._metadata, self._plan
        if metadata is None:
            return None
        if plan is None:
            left = self._without_plan_at - self._runtime.monotonic()
            if left > 0:
                return left
            plan = NodePlan(has_all_paths=False)

        text = topology_document(self._node_name, metadata, plan)
        if text == self._written:
            return None
        try:
            self._write(text)
        except OSError as error:
            self._failed(error)
            return RETRY_SECONDS
        self._written = text
        if self._last_error:
            log.info("%s is up to date again", self._file)
        self._last_error = ""
        return None

    def _write(self, text: str) -> None:
        """Replace the file whole. Raises OSError."""
        try:
            self._new_file.write_text(text, encoding="utf-8", errors="backslashreplace")
            self._new_file.replace(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                self._new_file.unlink()
            raise

    def _failed(self, error: OSError) -> None:
        """Log a failed write once for each reason."""
        why = error.strerror or str(error)
        if why != self._last_error:
            log.warning(
                "--topology-file %s cannot be written: %s; retried every %.0f s",
                self._file,
                why,
                RETRY_SECONDS,
            )
        self._last_error = why
