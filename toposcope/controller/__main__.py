"""`python -m controller`: the controller on the cluster of the current kubeconfig or pod."""

import argparse
import sys

from toposcope.controller.options import add_arguments, options
from toposcope.controller.run import run


def main() -> int:
    """Run the controller; the program's exit code."""
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    add_arguments(parser)
    return run(options(parser, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
