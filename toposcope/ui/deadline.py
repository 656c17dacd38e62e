"""Work with an end: what takes longer than it may is stopped between two steps of the interpreter."""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeadlineError(BaseException):
    """The work took longer than it may. No Exception: nothing on the way may take it for an error of its own."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do the work in this thread. Raises TooLong when it is not done in time.

    A timer raises TooLong in this thread. What runs as one step of the interpreter (a call of C code) ends first.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    over = False

    def stop() -> None:
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(DeadlineError))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        return work()
    finally:
        timer.cancel()
        with lock:
            over = True
