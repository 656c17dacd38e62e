"""Pictures made of boxes, lines and words, as SVG: one file for light and for dark pages, readable without a font."""

from collections.abc import Iterable
from html import escape
from typing import Final, Literal

Tone = Literal["plain", "ours", "result", "bad", "frame"]

_STYLE: Final = """\
  .page{fill:#ffffff} .ink{fill:#1f2328} .faint{fill:#59636e} .line{stroke:#59636e;fill:none;stroke-width:1.6}
  .dash{stroke-dasharray:5 4} .plain{fill:#f6f8fa;stroke:#8c959f} .ours{fill:#ddf4ff;stroke:#0969da}
  .result{fill:#dafbe1;stroke:#1a7f37} .bad{fill:#ffebe9;stroke:#cf222e} .frame{fill:none;stroke:#8c959f}
  .head{fill:#59636e}
  text{font:13px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif} .bold{font-weight:600}
  .mono{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
  .middle{text-anchor:middle} .small{font-size:11.5px}
  @media (prefers-color-scheme:dark){
    .page{fill:#0d1117} .ink{fill:#e6edf3} .faint{fill:#9198a1} .line{stroke:#9198a1} .head{fill:#9198a1}
    .plain{fill:#161b22;stroke:#6e7681} .ours{fill:#0c2d4f;stroke:#388bfd} .result{fill:#0f2d1a;stroke:#3fb950}
    .bad{fill:#3c1618;stroke:#f85149} .frame{stroke:#6e7681}
  }"""
_TIP: Final = """\
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>"""
_LINE: Final = 19
"""From one line of words to the next."""


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A whole SVG document; `title` is for those who do not see it."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>\n{_STYLE}\n</style>",
        _TIP,
        f'<rect class="page" width="{width}" height="{height}" rx="10"/>',
        *parts,
        "</svg>\n",
    ]
    return "\n".join(lines)


def box(x: int, y: int, width: int, height: int, *words: str, tone: Tone = "plain", top: bool = False) -> str:
    """A box with its words in the middle, the first line bold; with `top` they begin at its upper edge."""
    shape = f'<rect class="{tone}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'
    first = y + 20 if top else y + height // 2 + 5 - (len(words) - 1) * _LINE // 2
    return shape + "".join(
        _text(x + width // 2, first + i * _LINE, word, "ink bold middle" if i == 0 else "faint middle small")
        for i, word in enumerate(words)
    )


def label(x: int, y: int, *words: str, kind: str = "faint small") -> str:
    """Lines of words that begin at a point."""
    return "".join(_text(x, y + i * _LINE, word, kind) for i, word in enumerate(words))


def arrow(*points: tuple[int, int], both: bool = False, dashed: bool = False) -> str:
    """A line through points, with a tip at its end."""
    path = "M" + " ".join(f"{x} {y}" for x, y in points)
    start = ' marker-start="url(#tip)"' if both else ""
    return f'<path class="line{" dash" if dashed else ""}" d="{path}" marker-end="url(#tip)"{start}/>'


def line(*points: tuple[int, int], dashed: bool = False) -> str:
    """A line through points."""
    return f'<path class="line{" dash" if dashed else ""}" d="M{" ".join(f"{x} {y}" for x, y in points)}"/>'


def _text(x: int, y: int, word: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(word)}</text>'
