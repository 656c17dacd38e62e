"""`toposcope controller` as it runs in a pod."""

import os
import sys
from pathlib import Path

from toposcope.cli.main import main as toposcope
from toposcope.kube.config import load


def main() -> int:
    """Run the controller."""
    load.__defaults__ = (os.environ, Path(os.environ["BENCH_ACCOUNT"]), None)
    return toposcope(["controller", *sys.argv[1:]])
