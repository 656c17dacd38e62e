"""A link matrix for people's terminals."""

from rich.text import Text

from toposcope.topology.matrix import LinkMatrix, nv_links, table


def matrix_text(matrix: LinkMatrix) -> Text:
    """The matrix for a terminal: NVLink stands out, paths across sockets step back. Reads the same without colour."""
    text = Text()
    for line in table(matrix).splitlines(keepends=True):
        for word in _words(line):
            text.append(word, style=_style(word.strip()))
    return text


def _words(line: str) -> list[str]:
    """The line cut before each cell, so that joining the parts gives the line again."""
    starts = [i for i in range(len(line)) if i == 0 or (line[i - 1] == " " and line[i] != " ")]
    return [line[a:b] for a, b in zip(starts, [*starts[1:], len(line)], strict=True)]


def _style(cell: str) -> str:
    if nv_links(cell):
        return "bold green"
    return {"PIX": "cyan", "PXB": "cyan", "SYS": "dim"}.get(cell, "")
