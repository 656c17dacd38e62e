"""The processes of a simulated cluster, forked from one that has loaded the code already.

Forking costs a tenth of what 31 interpreters would, and changes nothing that the programs do: each
has its own memory, its own connections and its own log file.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import psutil

_PATIENCE_SECONDS: Final = 5.0


class Processes:
    """Child processes that end with this object.

    Fork them all before this process starts a thread.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[psutil.Process] = []

    def fork(self, name: str, program: Callable[[], int]) -> None:
        """Run `program` in a process of its own, its output in a log file called `name`."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self._running.append(psutil.Process(pid))
            return

        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C is for the demo, which then ends the others in order
            file = self._logs / f"{name}.log"
            log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            code = program()
        finally:
            os._exit(code)

    def last_words(self) -> str:
        """The last line of each log."""
        lines = []
        for file in sorted(self._logs.glob("*.log")):
            text = file.read_text(encoding="utf-8", errors="replace")
            lines_of_log = text.strip().splitlines()
            if lines_of_log:
                lines.append(f"{file.stem}: {lines_of_log[-1]}")
        return "\n".join(lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._running:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            _, self._running = psutil.wait_procs(self._running, _PATIENCE_SECONDS)
