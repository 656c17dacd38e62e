"""Give the pods of a job ranks in the order of their racks, so that neighbors in a ring are close.

The pods meet at old rank 0, which sorts them by (path, old rank). A pod knows its node's path by
TOPOSCOPE_PATH, TOPOSCOPE_PATH_FILE or TOPOSCOPE_ENDPOINT. If it restarts, it gets its rank again.
"""

import argparse
from pathlib import Path

from toposcope import rank


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope rank`."""
    about = "print the program as one file for Python 3.8 or newer, and end"
    parser.add_argument("--source", action="store_true", help=about)
    rank.add_arguments(parser)


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Meet the job's other pods; 2 without ranks, else what the job's command returns."""
    if arguments.source:
        file = Path(rank.__file__)
        print(file.read_text(encoding="utf-8"), end="")
        return 0
    return rank.run(arguments)
