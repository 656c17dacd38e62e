"""`python -m tools.docgen.release VERSION`: the changelog's section of a version.

It fails where that is no release.
"""

import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

from toposcope import __version__
from toposcope.errors import ToposcopeError

CHANGELOG: Final = Path(__file__).parents[2] / "CHANGELOG.md"
_HEADING: Final = re.compile(
    r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE
)


class NoReleaseError(ToposcopeError):
    """What is tagged cannot be released under this version.

    The message says what to change, and where.
    """


def notes(version: str, changelog: str) -> str:
    """What the changelog says of a version.

    Raises NoReleaseError when the code has another version, or the changelog no dated section of it
    with words in it.
    """
    if version != __version__:
        raise NoReleaseError(
            f"the tag says {version} and toposcope.py {__version__}: they must be the same"
        )
    for heading, following in pairwise([*_HEADING.finditer(changelog), None]):
        if heading and heading["name"] == version and heading["date"]:
            text = changelog[heading.end() : following.start() if following else None].strip()
            if text:
                return text
    raise NoReleaseError(
        f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD' that says what changed"
    )


def main(arguments: list[str]) -> int:
    """Print the section; 1 with the reason on standard error where there is none."""
    try:
        (version,) = arguments
        print(notes(version, CHANGELOG.read_text(encoding="utf-8")))
    except ValueError:
        print("usage: python -m tools.docgen.release VERSION", file=sys.stderr)
        return 2
    except NoReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
