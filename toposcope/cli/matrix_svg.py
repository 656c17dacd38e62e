"""A link matrix as an SVG picture: one file for light and for dark pages, every cell with its word in it."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from toposcope.cli.output import counted
from toposcope.hardware.matrix import SELF, LinkMatrix, nv_links
from toposcope.hardware.matrix_annotation import NodeMatrix
from toposcope.hardware.pci import NODE, PHB, PIX, PXB, SYS

_CELL: Final = 46
_ROW: Final = 30
_LEFT: Final = 72
_TOP: Final = 84
_MARGIN: Final = 24
_GAP: Final = 10
"""Between GPUs and NICs."""
_LETTER: Final = 7.4
"""Width of a character of the small text, generously."""

_NOT_XML: Final = dict.fromkeys({*range(32), 0xFFFE, 0xFFFF} - {*b"\t\n\r"}, "\ufffd")
"""Characters that no XML document may hold; an annotation may."""

_CLASSES: Final = {SELF: "self", PIX: "pix", PXB: "pxb", PHB: "phb", NODE: "node", SYS: "sys"}

_STYLE: Final = """\
  .page{fill:#ffffff} .ink{fill:#1f2328} .faint{fill:#59636e} .alarm{fill:#b42318}
  .nv{fill:#1a7f37} .pix{fill:#0969da} .pxb{fill:#54aeff} .phb{fill:#c9d9ea} .node{fill:#e3e8ee} .sys{fill:#f3f5f7}
  .self{fill:none;stroke:#d1d9e0}
  .on-nv,.on-pix{fill:#ffffff} .on-pxb,.on-phb,.on-node,.on-sys{fill:#1f2328} .on-self{fill:#59636e}
  text{font:12px ui-sans-serif,system-ui,-apple-system,"Segoe UI",sans-serif} .title{font-size:16px;font-weight:600}
  .cell{font-size:11px;text-anchor:middle;font-weight:500} .head{text-anchor:middle} .side{text-anchor:end}
  @media (prefers-color-scheme:dark){
    .page{fill:#0d1117} .ink{fill:#e6edf3} .faint{fill:#9198a1} .alarm{fill:#ff9b8e}
    .nv{fill:#238636} .pix{fill:#1f6feb} .pxb{fill:#2a5a9e} .phb{fill:#2d3d52} .node{fill:#222c38} .sys{fill:#171d25}
    .self{stroke:#3d444d} .on-pxb,.on-phb,.on-node,.on-sys{fill:#e6edf3} .on-self{fill:#9198a1}
    .on-nv{fill:#ffffff}
  }"""


def matrix_svg(node: str, found: NodeMatrix, links: LinkMatrix, legend: Mapping[str, str]) -> str:
    """The picture, a whole SVG document. `legend` says what each kind of cell means, best first."""
    size = len(links.devices)
    gpus = links.gpus
    used = {cell for row in links.cells for cell in row}
    shown = [
        (cell, words)
        for cell, words in legend.items()
        if cell in used or (cell == "NV#" and any(map(nv_links, used)))
    ]
    facts = [_fact(number, found, gpus) for number in range(size)]
    right = _at(size, gpus, _CELL) + _LEFT + 12
    notes = [*found.reasons, *found.disputes]
    lines = [
        *(f"{cell}  {words}" for cell, words in shown),
        *(f"! {note}" for note in notes),
        f"Links of {node}",
    ]
    width = (
        max(
            right + round(max(map(len, facts)) * _LETTER),
            _LEFT + 40 + round(max(map(len, lines)) * _LETTER),
        )
        + _MARGIN
    )
    bottom = _TOP + _at(size, gpus, _ROW) + 28
    height = bottom + 24 * len(shown) + 20 * len(notes) + _MARGIN
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        'role="img" aria-labelledby="title about">',
        f'<title id="title">Link matrix of {escape(node)}</title>',
        f'<desc id="about">{escape(_about(links, gpus))}</desc>',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        f'<text class="ink title" x="{_MARGIN}" y="36">Links of {escape(node)}</text>',
        f'<text class="faint" x="{_MARGIN}" y="56">{escape(_about(links, gpus))}</text>',
        *_grid(links, gpus),
        *(
            f'<text class="faint" x="{right}" y="{_TOP + _at(i, gpus, _ROW) + 19}">{escape(fact)}</text>'
            for i, fact in enumerate(facts)
            if fact
        ),
        *_legend(shown, bottom),
        *(
            f'<text class="alarm" x="{_MARGIN}" y="{bottom + 24 * len(shown) + 20 * i + 14}">! {escape(note)}</text>'
            for i, note in enumerate(notes)
        ),
        "</svg>",
    ]
    return ("\n".join(body) + "\n").translate(_NOT_XML)


def _at(number: int, gpus: int, step: int) -> int:
    """Where the n-th row or column begins; NICs stand a little apart from GPUs."""
    return number * step + (_GAP if number >= gpus else 0)


def _about(links: LinkMatrix, gpus: int) -> str:
    direct = sum(name.startswith("DD") for name in links.devices)
    nics = len(links.devices) - gpus - direct
    about = f"{counted(gpus, 'GPU')}, {counted(nics, 'NIC')}"
    return f"{about}, {counted(direct, 'Data Direct function')}" if direct else about


def _fact(number: int, found: NodeMatrix, gpus: int) -> str:
    device = found.devices[number]
    facts = [device.name] if number >= gpus else []
    facts += [f"NUMA {device.numa}"] if device.numa is not None else []
    facts += [f"CPUs {device.cpus}"] if device.cpus and number < gpus else []
    return ", ".join(facts)


def _grid(links: LinkMatrix, gpus: int) -> Iterator[str]:
    for column, name in enumerate(links.devices):
        x = _LEFT + _at(column, gpus, _CELL) + _CELL // 2
        yield f'<text class="faint head" x="{x}" y="{_TOP - 8}">{escape(name)}</text>'
    for row, (name, cells) in enumerate(links.rows()):
        y = _TOP + _at(row, gpus, _ROW)
        yield f'<text class="ink side" x="{_LEFT - 10}" y="{y + 19}">{escape(name)}</text>'
        for column, cell in enumerate(cells):
            x = _LEFT + _at(column, gpus, _CELL)
            kind = "nv" if nv_links(cell) else _CLASSES.get(cell, "sys")
            yield (
                f'<rect class="{kind}" x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_ROW - 2}" rx="4"/>'
                f'<text class="cell on-{kind}" x="{x + _CELL // 2}" y="{y + 19}">{escape(cell)}</text>'
            )


def _legend(shown: list[tuple[str, str]], top: int) -> Iterator[str]:
    for number, (cell, words) in enumerate(shown):
        y = top + 24 * number
        kind = "nv" if cell == "NV#" else _CLASSES.get(cell, "sys")
        yield (
            f'<rect class="{kind}" x="{_MARGIN}" y="{y}" width="{_CELL - 2}" height="18" rx="4"/>'
            f'<text class="cell on-{kind}" x="{_MARGIN + _CELL // 2 - 1}" y="{y + 13}">{cell}</text>'
            f'<text class="ink" x="{_MARGIN + _CELL + 8}" y="{y + 13}">{escape(words)}</text>'
        )
