"""How the demo draws a link matrix and a domain tree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from toposcope.cli.colours import matrix_text
from toposcope.topology.hierarchy import Domain, tree
from toposcope.topology.levels import Level
from toposcope.topology.matrix import LinkMatrix
from toposcope.topology.node import NodeFacts
from toposcope.topology.text import plural

_FEW: Final = 3


def colour_matrix(annotation: Mapping[str, Any]) -> Text:
    """The matrix of a node's annotation, whose rows stop at the diagonal."""
    half = [row.split() for row in annotation["matrix"]]
    names = [f"GPU{gpu['index']}" for gpu in annotation["gpus"]] + [f"NIC{i}" for i in range(len(annotation["nics"]))]
    cells = tuple(tuple(half[max(i, j)][min(i, j)] for j in range(len(half))) for i in range(len(half)))
    return matrix_text(LinkMatrix(tuple(names), cells))


_STATUS: Final = {"True": "green", "False": "bold red", "Unknown": "yellow"}


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Text:
    """Aligned columns that are never wrapped, so that what is shown can be copied."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    text = Text()
    for number, line in enumerate(lines):
        for i, cell in enumerate(line):
            style = "bold" if number == 0 else _STATUS.get(cell, "cyan" if i == 0 else "")
            last = i == len(line) - 1
            text.append(cell if last else cell.ljust(widths[i] + 2), style=style)
        text.append("" if number == len(lines) - 1 else "\n")
    return text


def domain_tree(levels: Sequence[Level], nodes: Sequence[NodeFacts]) -> Text:
    """The domains with their node and GPU counts; hosts of one parent on one line, lines never cut."""
    root = tree(levels, nodes)
    return Text("\n").join([_line("cluster", "", root), *_branches(root, levels, "")])


def _branches(domain: Domain, levels: Sequence[Level], indent: str) -> Iterator[Text]:
    level, *below = levels
    if not below:
        yield Text.assemble(indent, "└── ", (level.domain, "cyan"), " ", _span(sorted(domain.children)))
        return
    for number, (value, child) in enumerate(sorted(domain.children.items()), 1):
        last = number == len(domain.children)
        # A node that is its own NVLink domain: one line says both.
        alone = len(below) == 1 and list(child.children) == [value]
        name = f"{level.domain} = {below[0].domain}" if alone else level.domain
        yield Text.assemble(indent, "└── " if last else "├── ", _line(name, value, child))
        if not alone:
            yield from _branches(child, below, indent + ("    " if last else "│   "))


def _line(level: str, value: str, domain: Domain) -> Text:
    nodes = "1 node" if domain.nodes == 1 else f"{domain.nodes} nodes"
    return Text.assemble(
        (level, "cyan"),
        " ",
        (f"{value} ", "bold") if value else "",
        f"{nodes}, {domain.gpus} {plural(domain.gpus, 'GPU')}",
    )


def _span(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} ... {names[-1]} ({len(names)})"
