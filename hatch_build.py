"""The page of `toposcope ui` belongs into what is released.

`make ui` builds the page; the repository does not hold it. Without it everything works but
`toposcope ui`, which says how to get the page: that is what `pip install .` of a fresh clone gives.
With TOPOSCOPE_RELEASE=1 its lack is an error.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = ("index.html", "assets/app.css", "assets/app.js")
"""Below toposcope/ui/static."""


class PageHook(BuildHookInterface[Any]):
    """Looks for the page before a wheel or sdist is built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise RuntimeError for a release without the page; warn about other builds without it."""
        del build_data
        if version == "editable":
            return
        folder = Path(self.root) / "toposcope" / "ui" / "static"
        missing = [name for name in PAGE if not (folder / name).is_file()]
        if not missing:
            return
        lacks = f"toposcope/ui/static lacks {', '.join(missing)}"
        text = f"the page of `toposcope ui` is not built: {lacks}; run `make ui` first"
        if os.environ.get("TOPOSCOPE_RELEASE") == "1":
            raise RuntimeError(text)
        self.app.display_warning(f"{text}, or go without it: everything but `toposcope ui` works")
