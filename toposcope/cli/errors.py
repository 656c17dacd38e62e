"""How commands end.

Exit codes: 0 OK, 1 the command found a problem, 2 it could not run (wrong usage, unreadable input,
no answer), 3 `check` cannot tell, 130 interrupted, 141 the reader of the output is gone.
"""

import argparse
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.kube.errors import ApiError, KubeError
from toposcope.snapshot.filters import DomainNotFoundError, SelectorError
from toposcope.snapshot.scope import LevelNotFoundError, TopologyNotFoundError

EXIT_OK: Final = 0
EXIT_PROBLEMS: Final = 1
EXIT_ERROR: Final = 2
EXIT_UNCLEAR: Final = 3

_HINTS: Final = {
    401: "; the API server rejects these credentials: log in again, or see --kubeconfig, --context",
    403: "; ask an admin for that permission: "
    "docs/check.md, section Rights, lists all that the commands read",
}


def exit_code(*, is_ok: bool) -> int:
    """0, or 1 where the command found a problem."""
    return EXIT_OK if is_ok else EXIT_PROBLEMS


class CommandError(ToposcopeError):
    """The command cannot give an answer; the message says why and what to do."""


EXPECTED: Final = (
    KubeError,
    TopologyNotFoundError,
    LevelNotFoundError,
    DomainNotFoundError,
    SelectorError,
    CommandError,
)
"""Errors that end a command with a message."""


def complaint(command: str, arguments: argparse.Namespace, error: Exception) -> str:
    """The message of an expected error, with what to do about it."""
    hint = ""
    if isinstance(error, ApiError):
        hint = _HINTS.get(error.status, "")
    if isinstance(error.__cause__, TimeoutError):
        silence = f"{arguments.request_timeout:g} s"
        hint = f"; it was silent for {silence}: --request-timeout 2m waits longer"
    return f"toposcope {command}: {error}{hint}"
