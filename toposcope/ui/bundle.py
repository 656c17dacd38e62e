"""The page as it was built: one page, one script, one style sheet, and nothing that is fetched from elsewhere."""

from pathlib import Path
from typing import Final

from toposcope.errors import ToposcopeError

FOLDER: Final = Path(__file__).parent / "static"
_KINDS: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
STYLE: Final = '<link rel="stylesheet" href="assets/app.css">'
SCRIPT: Final = '<script src="assets/app.js" defer></script>'
"""The two tags of the page that an export replaces."""


class PageNotBuiltError(ToposcopeError):
    """There is no page to show; the message says what to do."""


class Bundle:
    """The files of a built page; read for each request, so that a page that is built anew is there at once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    @property
    def missing(self) -> str:
        """What is to be said where the page was not built."""
        return f"the page is not built ({self._folder} has no index.html): run make ui in the source tree"

    def page(self) -> str | None:
        """The page; None where it was not built."""
        try:
            return (self._folder / "index.html").read_text(encoding="utf-8")
        except OSError:
            return None

    def asset(self, name: str) -> tuple[bytes, str] | None:
        """A file beside the page and its content type; None where there is none of this name."""
        kind = _KINDS.get(Path(name).suffix)
        if kind is None or Path(name).name != name:
            return None
        try:
            return (self._folder / "assets" / name).read_bytes(), kind
        except OSError:
            return None

    def parts(self) -> tuple[str, str, str]:
        """Page, style sheet and script, for an export. Raises NotBuilt."""
        page = self.page()
        try:
            style, script = (
                (self._folder / "assets" / name).read_text(encoding="utf-8") for name in ("app.css", "app.js")
            )
        except OSError:
            raise PageNotBuiltError(self.missing) from None
        if page is None:
            raise PageNotBuiltError(self.missing)
        if page.count(STYLE) != 1 or page.count(SCRIPT) != 1:
            raise PageNotBuiltError(
                f"{self._folder}/index.html has not the one style sheet and the one script: run make ui again"
            )
        return page, style, script
