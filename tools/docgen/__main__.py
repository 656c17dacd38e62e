"""`make reference`: write the generated parts of docs/.

`--check` writes nothing and names the pages that would change.

A part stands between two comments of its page; everything else is written by hand. A file of
`FILES` is generated as a whole.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from tools import figures
from tools.docgen import documents, measured, metrics, rules, sentences, tables
from toposcope.errors import ToposcopeError

DOCS: Final = Path(__file__).parents[2] / "docs"


def _rules(*names: str) -> dict[str, Callable[[], str]]:
    """The tables of rules of a page."""
    return {f"rules of {name}": partial(rules.table, name) for name in names}


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
    "check.md": {**_rules("before"), "documents": documents.table},
    "integrations/grove.md": _rules("grove", "dynamo"),
    "integrations/kai.md": _rules("kai", "runai"),
    "integrations/kueue.md": _rules("kueue"),
    "integrations/kube-scheduler.md": _rules("exclusive"),
    "integrations/others.md": _rules("volcano", "osmo", "kuberay"),
    "maintainers/dependencies.md": {"licences": tables.licences},
    "fields.md": {part: partial(tables.fields, part) for part in ("spec", "status")},
    "performance.md": {name: partial(measured.performance, name) for name in measured.SELECTIONS},
    "reliability.md": {
        **{
            name: partial(figures.part, "reliability", name)
            for name in ("invariants", "simulation", "large input")
        },
        "faults": measured.faults,
        "input": measured.fuzzing,
    },
}
"""Page to its generated parts."""
FILES: Final[Mapping[str, Callable[[], str]]] = {"maintainers/sentences.txt": sentences.text}
"""Files that are generated as a whole."""


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
    """The pages and files that are not what the code says, each as it should be."""
    changed = {}
    for name, parts in PARTS.items():
        page = text = (DOCS / name).read_text(encoding="utf-8")
        for part, write in parts.items():
            text = put(text, part, write())
        if text != page:
            changed[name] = text
    for name, write in FILES.items():
        file = DOCS / name
        text = write()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
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
