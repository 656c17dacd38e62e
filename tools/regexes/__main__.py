"""`python -m tools.regexes`: refuse patterns of the product that may take more than linear time."""

import sys
from pathlib import Path

from tools.regexes.judge import complaints


def main() -> int:
    """1 where any of them is refused."""
    problems = complaints(Path(__file__).parents[2], "toposcope")
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
