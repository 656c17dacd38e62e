"""`toposcope`: finds the subcommand and hands over to it."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from toposcope import __version__
from toposcope.agent.gc_tuning import loading
from toposcope.cli.streams import flushed, open_all

COMMANDS: Final = {
    "tree": "show the hierarchy of a cluster with counts: what is where, free, not well",
    "nodes": "list nodes by label, domain or state",
    "levels": "list the levels of a topology: label key, coverage, domains, who requires them",
    "matrix": "show how the GPUs and NICs of a node are linked",
    "save": "save a cluster into a small file that all commands read in an instant",
    "diff": "show what changed in a cluster since it was saved",
    "check": "check workloads before they are submitted: rules, levels, room",
    "ui": "show the cluster in a browser: one read-only page, live, from files, or as one file to send",
    "explain": "explain why a workload in the cluster waits, and what to do next",
    "suggest": "suggest ClusterTopologies for the kinds of nodes that there are",
    "export": "write the topology in the form of Grove, KAI, Kueue, Run:ai, OSMO, Slurm or NCCL",
    "discover": "show how the GPUs of this machine (or of a profile or capture) are wired",
    "agent": "keep the labels of this node true (runs on every GPU node)",
    "controller": "keep ClusterTopologies and what schedulers read true (runs once per cluster)",
    "uninstall": "remove what Toposcope wrote into a cluster: published resources, ClusterTopologies, labels",
    "demo": "simulate a cluster and watch the whole path work",
    "completion": "print what makes bash, zsh or fish complete commands and flags",
}
"""Subcommand to its one-line help; the code is the module of that name in `cli`."""

_PLUGIN: Final = "kubectl-toposcope"
"""The name under which kubectl finds this program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the program's exit code (0 well, 1 failed or not well, 2 wrong usage)."""
    open_all()
    try:
        return flushed(_run(arguments))
    except SystemExit as end:  # help and wrong usage
        raise SystemExit(flushed(end.code) if isinstance(end.code, int) else end.code) from None


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "_ARGCOMPLETE" in os.environ:
        from toposcope.cli.completion import complete  # noqa: PLC0415 - only a shell that completes asks for it

        complete(COMMANDS)
    called = "kubectl toposcope" if arguments is None and Path(sys.argv[0]).name == _PLUGIN else "toposcope"
    if words and words[0] in COMMANDS:
        name = words[0]
        # Only the chosen command is imported: an agent must not pay for what the demo needs.
        with loading():
            command = importlib.import_module(f"toposcope.cli.{name}")
        # The image carries no docstrings.
        about = command.__doc__ or COMMANDS[name]
        parser = argparse.ArgumentParser(prog=f"{called} {name}", description=about)
        command.add_arguments(parser)
        code: int = command.run(parser, parser.parse_args(words[1:]))
        return code
    parser = argparse.ArgumentParser(
        prog=called,
        description="GPU topology discovery for Kubernetes.",
        epilog="commands:\n" + "".join(f"  {name:<12}{text}\n" for name, text in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{called} COMMAND [FLAGS]   ({called} COMMAND --help tells more)",
    )
    parser.add_argument("--version", action="version", version=f"toposcope {__version__}")
    parser.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.parse_args(words)
    parser.print_help()
    return 2


if __name__ == "__main__":
    sys.exit(main())
