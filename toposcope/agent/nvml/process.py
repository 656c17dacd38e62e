"""What makes a process a worker, forked or started afresh (see `toposcope.agent.nvml.launch`)."""

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from toposcope.agent.nvml.board import Board
from toposcope.agent.nvml.worker import work

_PR_SET_PDEATHSIG: Final = 1


def main(parent: int, connection: int, board: int, orders: int) -> NoReturn:
    """A fresh interpreter's main program; the last three are descriptors, `orders` of what `launch.spawn` wrote."""
    import pickle  # noqa: PLC0415 - a forked worker does without

    with open(orders, "rb") as file:
        file.seek(0)
        open_nvml, sysfs = pickle.load(file)  # noqa: S301 - our own parent wrote it, into memory that only we share
    be_worker(parent, socket.socket(fileno=connection), Board(board), open_nvml, sysfs)


def be_worker(
    parent: int, connection: socket.socket, board: Board, open_nvml: Callable[[], Any], sysfs: Path
) -> NoReturn:
    """Work until the agent, whose process id is `parent`, has no more use for it; then end this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the agent decides; its end closes the socket
    status = 1
    try:
        if _tied_to(parent):
            work(connection, open_nvml, sysfs, board.write)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, somebody has to be able to read it
        import traceback  # noqa: PLC0415 - it brings a tokenizer, and most workers never need it

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _tied_to(parent: int) -> bool:
    """Die with the agent, were it in the middle of a call that hangs; False when it is gone already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent
