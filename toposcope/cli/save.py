"""Save the cluster into one small file that --from loads at once: nodes, pods, topologies,
link matrices.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from toposcope.cli.command import add_source_arguments, load_snapshot, on_screen
from toposcope.cli.errors import EXIT_OK, CommandError
from toposcope.cli.output import counted
from toposcope.cli.planning import read_budgets, read_required
from toposcope.cli.terminal import Screen
from toposcope.planning.budgets import Budgets
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import PodView, Snapshot
from toposcope.snapshot.packed import write_packed

_BYTES_PER_KIB: Final = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope save`."""
    parser.add_argument(
        "file", metavar="FILE", help="the file to write; an existing one is replaced"
    )
    parser.add_argument(
        "--no-pods", action="store_true", help="leave pods out: free GPUs will be unknown"
    )
    add_source_arguments(parser, ())


@on_screen("save")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Write the snapshot; 2 when the cluster cannot be read or the file cannot be written."""
    path = Path(arguments.file)
    folder = path.parent
    if not folder.is_dir():
        raise CommandError(f"{path}: no such folder: {folder}")
    if path.exists() and not path.is_file():
        raise CommandError(f"{path} is not a file; name one to write")

    snapshot = load_snapshot(
        arguments, has_pods=not arguments.no_pods, has_published=True, has_matrices=True
    )
    if not snapshot.nodes:
        raise CommandError(f"there are no nodes in {snapshot.source}, so nothing was saved")

    if arguments.no_pods:  # files may have some anyway
        snapshot = replace(snapshot, pods=None)
    elif snapshot.pods and not arguments.files:
        snapshot = _with_planning(arguments, snapshot, snapshot.pods)

    try:
        size = _write(snapshot, path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error

    saved = counted(len(snapshot.nodes), "node")
    if snapshot.pods is not None:
        pods = counted(len(snapshot.pods), "pod")
        saved += f", {pods}"
    count = len(snapshot.topologies)
    topologies = counted(count, "ClusterTopology", "ClusterTopologies")
    screen.show([f"saved {saved} and {topologies} in {path} ({_size(size)})"])
    return EXIT_OK


def _with_planning(
    arguments: argparse.Namespace, snapshot: Snapshot, pods: Sequence[PodView]
) -> Snapshot:
    """The snapshot with what planning commands also need: budgets, and required levels."""
    budgets = read_budgets(arguments, pods, Budgets())
    required = RequiredLevels()
    read_required(arguments, required)
    objects = (*snapshot.objects, *budgets.documents(pods), *required.documents())
    return replace(snapshot, objects=objects)


def _write(snapshot: Snapshot, path: Path) -> int:
    """Write the file and return its size.

    It is renamed into place, so that no reader ever sees half a file.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
        try:
            size = write_packed(snapshot, out)
            Path(out.name).replace(path)
        except BaseException:
            # This fails where another process has deleted the file.
            Path(out.name).unlink()
            raise
    return size


def _size(count: int) -> str:
    mebibytes = count / _BYTES_PER_KIB / _BYTES_PER_KIB
    if mebibytes >= 1:
        return f"{mebibytes:.1f} MiB"
    kibibytes = max(1, count // _BYTES_PER_KIB)
    return f"{kibibytes} KiB"
