"""Pages: all that a command prints, in files of tests/documents/.

TOPOSCOPE_WRITE_PAGES=1 rewrites the pages that the tests of a run compare; review the diff.
"""

import os

from tests.support.paths import DOCUMENTS


def read_page(name: str) -> str:
    """The page of this name, such as `cli/tree.txt`."""
    return (DOCUMENTS / name).read_text(encoding="utf-8")


def expected_page(name: str, printed: str) -> str:
    """The page to compare with what a command printed, which is written into it first when pages are rewritten."""
    if os.environ.get("TOPOSCOPE_WRITE_PAGES") == "1":
        (DOCUMENTS / name).write_text(printed, encoding="utf-8")
    return read_page(name)
