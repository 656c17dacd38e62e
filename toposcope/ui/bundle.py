"""The built page: one HTML file, one script, one style sheet; nothing comes from elsewhere."""

from pathlib import Path
from typing import Final

from toposcope import __version__
from toposcope.errors import ToposcopeError

FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
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
    """The page was not built; the message says how to get it."""


class Bundle:
    """The files of the built page; read for each request, so a rebuilt page shows up at once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    @property
    def missing(self) -> str:
        """How to get the page where it was not built: in a clone, or in a package built by pip."""
        if (self._folder.parent / "page" / "package.json").is_file():
            return "the page of toposcope ui is not built: run make ui"
        wheel = f"toposcope-{__version__}-py3-none-any.whl"
        return (
            "this installation has no page for toposcope ui: "
            f"install the released wheel, {wheel}, or use the image"
        )

    def page(self) -> str | None:
        """The page; None where it was not built."""
        try:
            return (self._folder / "index.html").read_text(encoding="utf-8")
        except OSError:
            return None

    def asset(self, name: str) -> tuple[bytes, str] | None:
        """A file beside the page and its content type; None where it does not exist."""
        content_type = _TYPES.get(Path(name).suffix)
        if content_type is None or Path(name).name != name:
            return None
        try:
            return (self._folder / "assets" / name).read_bytes(), content_type
        except OSError:
            return None

    def parts(self) -> tuple[str, str, str]:
        """Page, style sheet and script, for an export. Raises PageNotBuiltError."""
        page = self.page()
        try:
            style, script = (
                (self._folder / "assets" / name).read_text(encoding="utf-8")
                for name in ("app.css", "app.js")
            )
        except OSError:
            raise PageNotBuiltError(self.missing) from None

        if page is None:
            raise PageNotBuiltError(self.missing)
        if page.count(STYLE) != 1 or page.count(SCRIPT) != 1:
            raise PageNotBuiltError(
                f"{self._folder}/index.html does not load app.css and app.js once each: rebuild it"
            )
        return page, style, script
