"""Fills in one template, in a process of its own: nothing that the template does outlives it.

The parent sends the template and its values as JSON on standard input, and reads the text, or why
there is none, from standard output. Time and memory are limited before the template is read; the
sandbox of Jinja keeps it from everything but its values. OSMO renders in the same way (2026-08,
src/lib/utils/jinja_sandbox.py).
"""

import json
import resource
import sys
from typing import Any, Final

_CPU_SECONDS: Final = 3
_MEMORY_BYTES: Final = 512 << 20
_MOST_CHARACTERS: Final = 4 << 20
"""OSMO accepts no longer workflow."""


def main() -> None:
    """Render the template on standard input, and print the answer."""
    _limit(resource.RLIMIT_CPU, _CPU_SECONDS)
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    question = json.load(sys.stdin)
    try:
        answer = _answer(question["template"], question["values"], question["mark"])
    except (MemoryError, RecursionError):
        answer = {"error": "uses too much memory"}
    json.dump(answer, sys.stdout)


def _limit(kind: int, most: int) -> None:
    """Set a limit of this process, unless a lower one is set."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, hard))


def _answer(template: str, values: dict[str, Any], mark: str) -> dict[str, Any]:
    """The text, or why there is none; `missing` are the names without a value.

    A name that is only printed into the text leaves a mark there.
    """
    try:
        import jinja2  # noqa: PLC0415 - after the limits
        from jinja2 import meta, sandbox  # noqa: PLC0415 - same
    except ImportError:
        return {"error": "needs jinja2, which is not installed: pip install jinja2"}

    environment = sandbox.ImmutableSandboxedEnvironment(undefined=_missing_as(mark))
    try:
        names = meta.find_undeclared_variables(environment.parse(template))
        compiled = environment.from_string(template)
    except jinja2.TemplateSyntaxError as error:
        return {"error": str(error.message), "line": error.lineno}
    missing = sorted(names.difference(values, environment.globals))
    try:
        return _joined(compiled.generate(values))
    except jinja2.TemplateError as error:
        return {"error": str(error), "missing": missing}
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}", "missing": missing}


def _missing_as(mark: str) -> Any:
    """The type of a name without a value: it prints as its mark, and any other use is an error."""
    from jinja2 import StrictUndefined  # noqa: PLC0415 - after the limits
    from jinja2.utils import missing  # noqa: PLC0415 - same

    def written(self: Any) -> str:
        if self._undefined_obj is not missing:
            self._fail_with_undefined_error()
        return f"{mark}{self._undefined_name}"

    return type("Missing", (StrictUndefined,), {"__str__": written})


def _joined(pieces: Any) -> dict[str, Any]:
    """The text. Raises an error if it is too long."""
    parts: list[str] = []
    length = 0
    for piece in pieces:
        parts.append(piece)
        length += len(piece)
        if length > _MOST_CHARACTERS:
            return {"error": f"renders to more than {_MOST_CHARACTERS >> 20} MiB of text"}
    return {"text": "".join(parts)}
