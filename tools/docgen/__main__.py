"""`make reference`: write the generated parts of docs/.

`--check` writes nothing and names the pages that would change.

A part stands between two comments of its page; everything else is written by hand.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from tools import figures
from tools.docgen import metrics, tables
from toposcope.errors import ToposcopeError

DOCS: Final = Path(__file__).parents[2] / "docs"

_MEASURED_ALONE: Final = ("real", "look", "planning", "ui")


def _by(column: str) -> str:
    """The tables of reliability.md with this first column, each as measured last."""
    names = []
    for name, table in figures.read("reliability").items():
        if table.head[0] == column:
            names.append(name)
    return figures.part("reliability", *names)


PARTS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "labels.md": {"labels": tables.labels, "annotations": tables.annotations},
    "metrics.md": {
        part: partial(metrics.table, part) for part in ("agent", "topologies", "work", "planning")
    },
    "concepts.md": {
        "catalogue": tables.catalogue,
        "retired": tables.retired,
        "mistaken": tables.mistaken,
    },
    "commands.md": {"commands": tables.overview, "flags": tables.flags},
    "../manifests/chart/README.md": {"values": tables.values},
    "dependencies.md": {"licences": tables.licences},
    "fields.md": {part: partial(tables.fields, part) for part in ("spec", "status")},
    "performance.md": {
        "agent": partial(
            figures.part, "performance", "memory", "start", "probe", "rest", "flapping"
        ),
        "controller": partial(
            figures.part, "performance", "sync", "recompute", "change", "topologies"
        ),
        **{name: partial(figures.part, "performance", name) for name in _MEASURED_ALONE},
    },
    "reliability.md": {
        **{
            name: partial(figures.part, "reliability", name)
            for name in ("invariants", "faults", "processes", "simulation", "large input")
        },
        "input": partial(_by, "subject"),
    },
}
"""Page to its generated parts."""


class MissingMarkError(ToposcopeError):
    """A page lost the comments between which a part of it is written."""


def put(page: str, part: str, text: str) -> str:
    """The page with `text` as its part of that name.

    Raises MissingMarkError when the page has not exactly one place for it.
    """
    begin = f"<!-- generated: {part} (make reference) -->"
    end = f"<!-- end: {part} -->"
    begin_pattern = re.escape(begin)
    end_pattern = re.escape(end)
    pattern = re.compile(
        f"({begin_pattern}\n).*?({end_pattern}\n)",
        re.DOTALL,
    )
    content = text.strip()
    whole = f"{begin}\n\n{content}\n\n{end}\n"
    written, places = pattern.subn(lambda _: whole, page)
    if places != 1:
        raise MissingMarkError(
            f"the part {part!r} needs {begin!r} and {end!r} once on its page, not {places} times"
        )
    return written


def outdated() -> dict[str, str]:
    """The pages that are not what the code says, each as it should be."""
    changed = {}
    for name, parts in PARTS.items():
        page = text = (DOCS / name).read_text(encoding="utf-8")
        for part, write in parts.items():
            text = put(text, part, write())
        if text != page:
            changed[name] = text
    return changed


def main(arguments: list[str]) -> int:
    """Write the pages, or check them: then 1 where one is not what the code says."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.docgen [--check]", file=sys.stderr)
        return 2
    pages = outdated()
    for name, text in pages.items():
        if arguments:
            print(f"docs/{name} is not what the code says: make reference", file=sys.stderr)
        else:
            (DOCS / name).write_text(text, encoding="utf-8")
            print(f"docs/{name}")
    return 1 if arguments and pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
