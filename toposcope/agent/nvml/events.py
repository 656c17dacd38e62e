"""NVML events: an XID error, a GPU that became unavailable, a recovery action.

Each is a reason to probe at once.
"""

from typing import Any, Final

from toposcope.agent.nvml.gateway import Nvml, NvmlReturn, numbered

_XID: Final = 0x8
_UNAVAILABLE: Final = 0x4000
_RECOVERY: Final = 0x8000
_WANTED: Final = {
    _XID: "XID {data}",
    _UNAVAILABLE: "GPU unavailable",
    _RECOVERY: "recovery action {data}",
}
_TIMEOUT_CODE: Final = 10
"""The normal end of a wait."""


class EventWatch:
    """A set of NVML events of all GPUs; recreated when a lost GPU ends it."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._set: Any | None = None

    def arm(self) -> bool:
        """Register for the events of every GPU; whether any GPU has events."""
        if self._set is not None:
            return True
        events = self._nvml.ask("nvmlEventSetCreate")
        if isinstance(events, NvmlReturn):
            return False
        is_listening = False
        for index in numbered("GPUs", self._nvml.value("nvmlDeviceGetCount")):
            handle = self._nvml.value("nvmlDeviceGetHandleByIndex", index)
            if handle is not None and self._register(handle, events):
                is_listening = True
        if not is_listening:
            self._nvml.ask("nvmlEventSetFree", events)
            return False
        self._set = events
        return True

    def _register(self, handle: Any, events: Any) -> bool:
        """Register for the events of one GPU; whether it has any."""
        # NVML rejects all types if the GPU lacks one of them.
        supported = self._nvml.value("nvmlDeviceGetSupportedEventTypes", handle) or 0
        types = sum(_WANTED) & supported
        if not types:
            return False
        answer = self._nvml.ask("nvmlDeviceRegisterEvents", handle, types, events)
        return not isinstance(answer, NvmlReturn)

    def wait(self, seconds: float) -> str:
        """What happened within `seconds`, in a few words; empty when nothing did."""
        milliseconds = int(seconds * 1000)
        answer = self._nvml.ask("nvmlEventSetWait_v2", self._set, milliseconds)
        if not isinstance(answer, NvmlReturn):
            gpu = self._nvml.value("nvmlDeviceGetIndex", answer.device)
            if gpu is None:
                gpu = "?"
            words = _words(answer)
            return f"{words} on GPU {gpu}"

        if answer.code == _TIMEOUT_CODE:
            return ""
        self._nvml.ask("nvmlEventSetFree", self._set)
        self._set = None
        return f"NVML's events ended: {answer.text}"


def _words(event: Any) -> str:
    for bit, words in _WANTED.items():
        if event.eventType & bit:
            return words.format(data=event.eventData)
    return "event"
