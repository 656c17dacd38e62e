"""The one gateway to NVML.

Every call goes through `Nvml.ask`, and "not supported" is an answer, not an exception. `module` is
`pynvml` or anything that answers the same functions. One thread only: the header promises thread
safety, but NCCL still guards every call with a mutex because of past bugs.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from toposcope.errors import ToposcopeError

NOT_SUPPORTED: Final = 3
INVALID_ARGUMENT: Final = 2
FUNCTION_NOT_FOUND: Final = 13
ARGUMENT_VERSION_MISMATCH: Final = 25
LIBRARY_NOT_FOUND: Final = 12
DRIVER_NOT_LOADED: Final = 9
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
LIB_RM_VERSION_MISMATCH: Final = 18
UNKNOWN: Final = 999

_ABSENT: Final = frozenset(
    {INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH}
)
LOST: Final = frozenset({GPU_IS_LOST, RESET_REQUIRED})

_MOST_PLAUSIBLE: Final = 1024
"""No machine has as many GPUs, and no GPU as many links or MIG slots."""

_MISMATCHED_FILES: Final = -1
"""pynvml's NVMLLibraryMismatchError: no NVMLError and without a code."""
GARBAGE: Final = -2
"""NVML succeeded with what cannot be an answer."""


class NvmlReturn(NamedTuple):
    """An `nvmlReturn_t` other than NVML_SUCCESS, as data."""

    code: int
    text: str

    @property
    def is_absent(self) -> bool:
        """The GPU or the driver has no such thing (function, struct version, feature).

        A fact, not a fault.
        """
        return self.code in _ABSENT

    @property
    def is_lost(self) -> bool:
        """The GPU is lost or needs a reset, and what it still answers means nothing."""
        return self.code in LOST


class Nvml:
    """NVML with errors as data.

    `step` gets the name of a call before it is made, so that a hang has a name.
    """

    def __init__(
        self, module: ModuleType | Any, step: Callable[[str], None] = lambda _: None
    ) -> None:
        self.module = module
        self._step = step
        self._fixed: dict[tuple[str | int | None, ...], Any] = {}
        self.loss: NvmlReturn | None = None
        """The last answer that a GPU is lost.

        `clear_loss` comes before the questions about each GPU.
        """

    def ask(self, function: str, *arguments: Any) -> Any | NvmlReturn:
        """The result of one NVML function, or an `NvmlReturn` in place of the error that it raised.

        A function that the binding lacks is not found, as one that the driver lacks.
        """
        call = getattr(self.module, function, None)
        if call is None:
            return NvmlReturn(FUNCTION_NOT_FOUND, f"{function} is not in the binding")
        try:
            return call(*arguments)
        except self.module.NVMLError as error:
            refused = NvmlReturn(int(error.value), str(error))
            self.note_loss(refused)
            return refused
        except self.module.NVMLLibraryMismatchError as error:
            return NvmlReturn(_MISMATCHED_FILES, str(error))
        except UnicodeDecodeError as error:
            return NvmlReturn(UNKNOWN, f"{function} returned bytes that are not text: {error}")

    def note_loss(self, answer: NvmlReturn) -> None:
        """Remember an answer that a GPU is lost; others pass."""
        if answer.is_lost:
            self.loss = answer

    def clear_loss(self) -> None:
        """Forget that a GPU was lost: another one is asked now."""
        self.loss = None

    def value(self, function: str, *arguments: Any) -> Any | None:
        """The result of one NVML function, or None for any failure: where why does not matter."""
        answer = self.ask(function, *arguments)
        return None if isinstance(answer, NvmlReturn) else answer

    def fixed(
        self, of: tuple[str | int | None, ...], *questions: tuple[Any, ...]
    ) -> tuple[Any | None, ...]:
        """The `value` of each question (a function and its arguments).

        For what only a reset or a person changes: it is remembered until `forget` once all are
        answered, be it by "there is no such thing". `of` is what is asked: a GPU's UUID, with the
        number of its link, or two UUIDs; nothing is remembered of a GPU without a UUID.
        """
        remembered: tuple[Any | None, ...] | None = self._fixed.get(of)
        if remembered is not None:
            return remembered
        values = []
        is_settled = True
        for question in questions:
            answer = self.ask(*question)
            if isinstance(answer, NvmlReturn):
                is_settled = is_settled and answer.is_absent
                answer = None
            values.append(answer)
        if is_settled:
            self.remember(of, tuple(values))
        return tuple(values)

    def recall(self, of: tuple[str | int | None, ...]) -> Any | None:
        """What was remembered of `of`; None: nothing."""
        return self._fixed.get(of)

    def remember(self, of: tuple[str | int | None, ...], value: Any) -> None:
        """Remember a value until `forget`; nothing is remembered of a GPU without a UUID."""
        if None not in of:
            self._fixed[of] = value

    def forget(self) -> None:
        """Ask for everything again."""
        self._fixed.clear()

    def start(self) -> NvmlReturn | None:
        """Initialise NVML, once per process: each init wakes idle GPUs.

        Returns the `NvmlReturn` when it fails.
        """
        self._step("nvmlInit")
        answer = self.ask("nvmlInit")
        return answer if isinstance(answer, NvmlReturn) else None

    def enter(self, step: str) -> None:
        """Announce what is asked next."""
        self._step(step)


class ImplausibleError(ToposcopeError, ValueError):
    """An answer that no hardware gives: NVML's memory is damaged."""


def numbered(things: str, count: int | None) -> range:
    """The indices of `count` things; none for None.

    Raises ImplausibleError for more than there can be.
    """
    number = count or 0
    if number > _MOST_PLAUSIBLE:
        raise ImplausibleError(f"NVML reports {count} {things}, more than a machine can have")
    return range(number)


def open_pynvml() -> Any:
    """NVIDIA's binding, loaded in the process that probes and nowhere else."""
    import pynvml  # noqa: PLC0415 - the agent's other processes must not pay for it

    return pynvml
