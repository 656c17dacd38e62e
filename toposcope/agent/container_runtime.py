"""Why NVML does not start.

Which setting of driver, container or runtime would help, and whether a restart would. The NVIDIA
runtime puts the driver's library and device nodes into a container when it is the container's
runtime and `NVIDIA_VISIBLE_DEVICES` and `NVIDIA_DRIVER_CAPABILITIES` ask for it, when the container
is made and never later. The kernel module is visible in any case.
"""

import os
from collections.abc import Mapping
from typing import Final

from toposcope.agent.nvml.gateway import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    UNKNOWN,
)
from toposcope.agent.raw import RawNode

_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_CAPABILITIES: Final = "NVIDIA_DRIVER_CAPABILITIES"
_CONTROL_DEVICE: Final = "nvidiactl"
_BY_MOUNTS: Final = "/var/run/nvidia-container-devices"
"""In the variable.

The devices are named by mounts in this folder, as the component bottlerocket does.
"""

_NO_DRIVER: Final = "install the NVIDIA driver on this node"
_ADVICE: Final = {
    DRIVER_NOT_LOADED: "the driver's library is there but the kernel module is not loaded: "
    "try `modprobe nvidia` and `dmesg | grep -i nvidia`",
    LIB_RM_VERSION_MISMATCH: "library and kernel module have different driver versions: "
    "reboot the node, or reload the module and restart the pod",
    NO_PERMISSION: "no permission for /dev/nvidiactl: "
    "check the device nodes' modes and the container's device rules",
    GPU_IS_LOST: "a GPU that fell off the bus prevents NVML from starting: "
    "find it with `dmesg | grep -i xid`, then reset it or reboot the node",
    UNKNOWN: "the container may have lost its device nodes (/dev/nvidia*): restart the pod",
}


PATIENCE_SECONDS: Final = 300.0
"""How long NVML has to fail before a restart is worth it: a driver upgrade takes a few minutes."""
_OLD_LIBRARY: Final = frozenset(
    {LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH, NO_PERMISSION, UNKNOWN}
)


def container_facts(
    environ: Mapping[str, str] = os.environ, dev: str = "/dev"
) -> tuple[tuple[str, str], ...]:
    """What this container asks of the NVIDIA runtime, and whether it got the control device."""
    facts = {}
    for name in (_VISIBLE, _CAPABILITIES):
        value = environ.get(name)
        if value is not None:
            facts[name] = value
    has_control_device = os.access(f"{dev}/{_CONTROL_DEVICE}", os.F_OK)
    facts[_CONTROL_DEVICE] = "present" if has_control_device else "absent"
    return tuple(facts.items())


def advice(code: int, raw: RawNode) -> str:
    """What an admin can do about an NVML that does not start with this error code on this node."""
    container = dict(raw.container)
    if code == LIBRARY_NOT_FOUND:
        remedy = _runtime(container) if raw.is_module_loaded else _NO_DRIVER
        return f"libnvidia-ml.so.1 was not found: {remedy}"
    without_device = raw.is_module_loaded and container.get(_CONTROL_DEVICE) == "absent"
    if without_device and code in (DRIVER_NOT_LOADED, UNKNOWN):
        return (
            "the kernel module is loaded but this container has no /dev/nvidiactl: "
            f"{_runtime(container)}"
        )
    return _ADVICE.get(code, "run `nvidia-smi` on the node; it asks the same library")


def withheld(raw: RawNode) -> str:
    """Why NVML works and shows fewer GPUs than the bus has.

    Empty unless a setting of this container explains it.
    """
    visible_devices = dict(raw.container).get(_VISIBLE)
    if visible_devices in (None, "all", _BY_MOUNTS):
        return ""
    return f"{_VISIBLE} is {visible_devices!r} in this container, which hides GPUs: set it to all"


def _runtime(container: dict[str, str]) -> str:
    """Which of the runtime's settings is missing, in the order in which they have to be right."""
    visible_devices = container.get(_VISIBLE, "")
    if visible_devices in ("", "void", "none"):
        setting = visible_devices or "not set"
        return f"the driver is loaded on this node, but {_VISIBLE} is {setting!r}: set it to all"
    wanted = container.get(_CAPABILITIES, "")
    capabilities = wanted.replace(" ", "").split(",")
    if wanted and "utility" not in capabilities and "all" not in capabilities:
        return f"the driver is loaded on this node, but {_CAPABILITIES} is {wanted!r}: add utility"
    if visible_devices == _BY_MOUNTS:
        return (
            "the driver is loaded on this node, but the container got none of its files: "
            f"{_BY_MOUNTS}/all must be a mount of /dev/null, and the runtime must heed these "
            "(accept-nvidia-visible-devices-as-volume-mounts=true)"
        )
    return (
        "the driver is loaded on this node and asked for, but the container got none of its files: "
        "set runtimeClassName: nvidia; if set, the cluster ignores the variable "
        "(accept-nvidia-visible-devices-envvar-when-unprivileged=false): add the kustomize "
        "component privileged-runtime; GKE and Bottlerocket have their own"
    )


class RestartPolicy:
    """Whether a new container would bring NVML back.

    It would when something changed since this one was made: NVML worked here and no longer starts
    (the device nodes were lost, the driver on the host was upgraded), or the kernel module was
    loaded later. Where nothing changed a restart changes nothing either: a wrong setting is
    reported, not hidden in a crash loop. So one change causes at most one restart.
    """

    def __init__(self) -> None:
        self._has_worked = False
        self._has_lacked_module = False
        self._since: float | None = None
        self._seconds = 0.0

    def observe(self, raw: RawNode, now: float) -> None:
        """Take note of a probe; `now` in seconds of a clock that never goes back."""
        if not raw.is_module_loaded:
            self._has_lacked_module = True
        if not raw.down:
            self._has_worked = True
        changed = self._has_worked or self._has_lacked_module
        if not changed or not raw.is_module_loaded or not _is_outdated(raw):
            self._since, self._seconds = None, 0.0
            return
        if self._since is None:
            self._since = now
        self._seconds = now - self._since

    def reason(self) -> str:
        """Why a restart would help; empty when it would not."""
        if self._seconds < PATIENCE_SECONDS:
            return ""
        if self._has_worked:
            return (
                "NVML worked in this container but no longer starts, although the driver is loaded"
            )
        return (
            "the driver was loaded after this container was created, "
            "so the container got none of its files"
        )


def _is_outdated(raw: RawNode) -> bool:
    """Whether NVML does not start because of what this container was given."""
    if raw.down is None:
        return False
    if raw.down.code in _OLD_LIBRARY:
        return True
    without_device = dict(raw.container).get(_CONTROL_DEVICE) == "absent"
    return raw.down.code == DRIVER_NOT_LOADED and without_device
