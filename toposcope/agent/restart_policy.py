"""Whether a new container would bring NVML back: libraries and device nodes are put in when it is made, never later.

A restart helps when something changed since: NVML worked in this container and no longer starts (the device nodes were
lost, the driver on the host was upgraded), or the kernel module was loaded after the container was made. Where nothing
changed a restart changes nothing either: a wrong setting is told, not hidden in a crash loop. So at most one restart
follows one change.
"""

from typing import Final

from toposcope.agent.nvml.gateway import (
    DRIVER_NOT_LOADED,
    LIB_RM_VERSION_MISMATCH,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    UNKNOWN,
)
from toposcope.agent.raw import RawNode
from toposcope.agent.runtime import CONTROL_DEVICE

PATIENCE_SECONDS: Final = 300.0
"""How long it has to last: a driver that is being upgraded takes a few minutes."""
_OLD_LIBRARY: Final = frozenset({LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH, NO_PERMISSION, UNKNOWN})


class RestartPolicy:
    """What this container has seen of NVML so far."""

    def __init__(self) -> None:
        self._worked = False
        self._without_module = False
        self._since: float | None = None
        self._seconds = 0.0

    def look(self, raw: RawNode, now: float) -> None:
        """Take note of a probe; `now` in seconds of a clock that never goes back."""
        down = next((fault.code for fault in raw.faults if fault.index is None), None)
        self._without_module = self._without_module or not raw.module_loaded
        self._worked = self._worked or down is None
        outdated = down in _OLD_LIBRARY or (
            down == DRIVER_NOT_LOADED and dict(raw.container).get(CONTROL_DEVICE) == "absent"
        )
        changed = self._worked or self._without_module
        if outdated and changed and raw.module_loaded:
            self._since = now if self._since is None else self._since
            self._seconds = now - self._since
        else:
            self._since, self._seconds = None, 0.0

    def outdated(self) -> str:
        """Why a new container would help; nothing when it would not."""
        if self._seconds < PATIENCE_SECONDS:
            return ""
        return (
            "NVML worked in this container and no longer starts, though the driver is loaded"
            if self._worked
            else "the driver was loaded after this container was made, which got nothing of it"
        )
