"""Workflows as templates: OSMO fills in `default-values` when one is submitted.

Rules: OSMO 2026-08 (src/lib/utils/workflow.py, TemplateSpec): a name at the beginning of a line
starts a section, the workflow is rendered with Jinja, where a name without a value is an error, and
OSMO's own words in braces (`{{output}}`) stay until the workflow runs.

Values may also come with `osmo workflow submit --set`. A missing value that places no task, such as
the address of an output, is replaced by a mark.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import UnreadableDocumentError

_WORKFLOW: Final = "workflow"
_VALUES: Final = "default-values"
_SECTIONS: Final = (_WORKFLOW, _VALUES, "version")
_SECTION: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9_-]{0,63}):")
_MARKERS: Final = ("{%", "{{", "{#")
_AT_RUNTIME: Final = re.compile(
    r"\{\{(?:uuid|workflow_id|output|input:[^{}\n]{1,256}|host:[^{}\n]{1,256})\}\}"
)
_MARK: Final = "NO-VALUE-FOR-"
_MARKED: Final = re.compile(_MARK + r"([A-Za-z0-9_]{1,100})")
_RENDER_SECONDS: Final = 10.0
"""How long a template may take, including the start of its process."""
_RENDER: Final = "toposcope.integrations.osmo.render"


@dataclass(frozen=True, slots=True)
class _Template:
    """The sections of a workflow."""

    workflow: str
    line: int
    """The line at which the workflow begins, from 0."""
    values: str


def expanded(text: bytes) -> bytes | None:
    """The workflow as OSMO fills it in; None if this is not a workflow template.

    Raises UnreadableDocumentError, which names a missing value.
    """
    if not _may_be_one(text):
        return None
    try:
        template = _cut(text.decode())
    except UnicodeDecodeError:
        return None
    if template is None:
        return None

    values = _values_of(template)
    workflow = template.workflow
    for number, word in enumerate(dict.fromkeys(_AT_RUNTIME.findall(workflow))):
        name = f"osmo_word_{number}"
        values[name] = word
        reference = "{{" + name + "}}"
        workflow = workflow.replace(word, reference)
    answer = _rendered(workflow, values)
    if "text" not in answer:
        raise _refusal(answer, template)
    filled_in: str = answer["text"]
    _check_placing(filled_in)
    return filled_in.encode()


def without_value(value: Any) -> list[str]:
    """The names without a value whose marks are in a value of a workflow."""
    names: set[str] = set()
    pending = [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, dict):
            pending += inner.values()
        elif isinstance(inner, list):
            pending += inner
        elif isinstance(inner, str) and _MARK in inner:
            names.update(_MARKED.findall(inner))
    return sorted(names)


def _check_placing(filled_in: str) -> None:
    """Raise UnreadableDocumentError where a field that places tasks has no value."""
    try:
        document = load(filled_in.encode())
    except YamlSyntaxError:
        return  # its reader says so
    flow = Field(document) / _WORKFLOW
    placing = [(flow / "resources").value, (flow / "pool").value]
    tasks = list((flow / "tasks").items())
    for group in (flow / "groups").items():
        tasks += (group / "tasks").items()
    for task in tasks:
        placing.append((task / "resource").value)
    missing = without_value(placing)
    if missing:
        raise _without(missing)


def _may_be_one(text: bytes) -> bool:
    """Whether the text may have anything to fill in. A cheap test, for files of any kind."""
    if b"workflow:" not in text:
        return False
    return b"default-values:" in text or any(marker.encode() in text for marker in _MARKERS)


def _cut(text: str) -> _Template | None:
    """The sections of a template; None if it is not a workflow or has nothing to fill in."""
    sections: dict[str, list[str]] = {}
    lines_of: list[str] = []
    starts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(keepends=True)):
        begin = _SECTION.match(line)
        if begin:
            name = begin[1]
            if name in sections:
                return None
            lines_of = []
            sections[name] = lines_of
            starts[name] = number
        lines_of.append(line)

    if _WORKFLOW not in sections or not set(sections).issubset(_SECTIONS):
        return None
    workflow = "".join(sections[_WORKFLOW])
    values = "".join(sections.get(_VALUES, ()))
    to_fill_in = _AT_RUNTIME.sub("", workflow)
    if not values and not any(marker in to_fill_in for marker in _MARKERS):
        return None
    return _Template(workflow, starts[_WORKFLOW], values)


def _values_of(template: _Template) -> dict[str, Any]:
    """The default values. Raises UnreadableDocumentError."""
    try:
        section = load(template.values.encode())
    except YamlSyntaxError as error:
        text = f"{_VALUES} of this OSMO template cannot be read: {error}"
        raise UnreadableDocumentError(text) from None
    values = section.get(_VALUES) if isinstance(section, dict) else None
    if values is None:
        return {}
    if not isinstance(values, dict):
        text = f"{_VALUES} of this OSMO template must be an object of names and values"
        raise UnreadableDocumentError(text)
    return {str(name): value for name, value in values.items()}


def _rendered(template: str, values: dict[str, Any]) -> dict[str, Any]:
    """The answer of the process that renders the template."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from {_RENDER} import main; main()"
    question = json.dumps({"template": template, "values": values, "mark": _MARK})
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-S", "-c", program],
            input=question.encode(),
            capture_output=True,
            timeout=_RENDER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"takes longer than {_RENDER_SECONDS:g} s to render"}
    except OSError as error:
        return {"error": f"cannot be rendered: {error.strerror}"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"error": "uses too much time or memory"}
    return answer


def _refusal(answer: dict[str, Any], template: _Template) -> UnreadableDocumentError:
    """Why a template could not be filled in."""
    missing = answer.get("missing")
    if missing:
        return _without(missing)
    where = ""
    line = answer.get("line")
    if line:
        where = f", line {template.line + line}"
    return UnreadableDocumentError(f"this OSMO template{where}: {answer['error']}")


def _without(names: Iterable[str]) -> UnreadableDocumentError:
    """The error for a template that cannot be placed without these values."""
    listed = ", ".join(names)
    return UnreadableDocumentError(
        f"this OSMO template has no value for {listed}: add it to {_VALUES}, or check what "
        "osmo workflow submit --dry-run --set NAME=VALUE prints"
    )
