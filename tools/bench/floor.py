"""NVML through NVIDIA's binding and nothing else: what no worker can go below."""

from ctypes import byref

import pynvml

TYPE_CHECKING = False  # the real one comes with a module that a bare process does without
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def ask(calls: "Iterable[tuple[str, tuple[Any, ...]]]") -> None:
    """Make calls and drop their answers.

    In a call, `gpu:0` is a handle, and `("struct", NAME)` a struct to be filled.
    """
    handles: dict[str, Any] = {}
    for name, arguments in calls:
        values = [
            handles[argument]
            if isinstance(argument, str)
            else byref(getattr(pynvml, argument[1])())
            if isinstance(argument, tuple)
            else argument
            for argument in arguments
        ]
        try:
            answer = getattr(pynvml, name)(*values)
        except pynvml.NVMLError:
            continue
        if name == "nvmlDeviceGetHandleByIndex":
            handles[f"gpu:{arguments[0]}"] = answer
