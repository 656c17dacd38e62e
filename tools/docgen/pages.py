"""What of docs/ is generated: pictures, and parts of pages. A part stands between two comments; the rest is by hand."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from tools import figures
from tools.docgen import diagrams, metrics, tables

DOCS: Final = Path(__file__).parents[2] / "docs"

_MEASURED_ALONE: Final = ("real", "look", "ui", "page", "scale", "agents", "fleet", "soak")

PARTS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "labels.md": {"labels": tables.labels, "annotations": tables.annotations},
    "metrics.md": {"agent": metrics.agent, "topologies": metrics.topologies, "work": metrics.work},
    "levels.md": {"catalogue": tables.catalogue, "retired": tables.retired, "mistaken": tables.mistaken},
    "commands.md": {"commands": tables.overview, "flags": tables.flags},
    "fields.md": {"spec": tables.spec, "status": tables.status},
    "performance.md": {
        "agent": partial(figures.part, "performance", "memory", "start", "probe", "rest", "flapping"),
        "controller": partial(figures.part, "performance", "sync", "events", "recompute", "change"),
        **{name: partial(figures.part, "performance", name) for name in _MEASURED_ALONE},
    },
    "reliability.md": {
        name: partial(figures.part, "reliability", name)
        for name in ("invariants", "faults", "processes", "input", "large input")
    },
}
"""Page to its generated parts."""


class MissingMarkError(Exception):
    """A page lost the comments between which a part of it is written."""


def put(page: str, part: str, text: str) -> str:
    """The page with `text` as its part of that name.

    Raises MissingMarkError when the page has not exactly one place for it.
    """
    begin, end = f"<!-- generated: {part} (make reference) -->", f"<!-- end: {part} -->"
    pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)}\n)", re.DOTALL)
    found, places = pattern.subn(lambda match: f"{match[1]}\n{text.strip()}\n\n{match[2]}", page)
    if places != 1:
        raise MissingMarkError(f"the part {part!r} wants {begin!r} and {end!r} once on its page, found {places} times")
    return found


def outdated() -> dict[str, str]:
    """The pages and pictures that are not what the code says, each as it should be."""
    pictures = {f"diagrams/{name}": draw() for name, draw in diagrams.PICTURES.items()}
    found = {name: text for name, text in pictures.items() if not _is(DOCS / name, text)}
    for name, parts in PARTS.items():
        page = text = (DOCS / name).read_text(encoding="utf-8")
        for part, write in parts.items():
            text = put(text, part, write())
        if text != page:
            found[name] = text
    return found


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text
