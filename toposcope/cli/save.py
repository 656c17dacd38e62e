"""Save the cluster into one small file that --from reads in an instant: nodes, pods, topologies, link matrices."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from toposcope.cli.failing import CommandError
from toposcope.cli.looking import WELL, add_source_arguments, answer, look
from toposcope.cli.terminal import Screen
from toposcope.cli.writing import counted
from toposcope.snapshot.packed import write_packed

_KIB: Final = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope save`."""
    parser.add_argument("file", metavar="FILE", help="where to; a file that is there is replaced as a whole")
    parser.add_argument("--no-pods", action="store_true", help="without pods: then nothing is known to be free")
    add_source_arguments(parser, ())


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Write the snapshot; 2 when the cluster cannot be read or the file not be written."""
    return answer("save", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    if not path.parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise CommandError(f"{path} is no file; name one to write")
    snapshot = look(arguments, pods=not arguments.no_pods, published=True, matrices=True)
    if not snapshot.nodes:
        raise CommandError(f"there is no node in {snapshot.source}, so nothing was saved")
    if arguments.no_pods:  # files may hold some all the same
        snapshot = replace(snapshot, pods=None)
    try:
        # Beside it and then in its place: nobody ever reads half a file.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
            try:
                size = write_packed(snapshot, out)
                Path(out.name).replace(path)
            except BaseException:
                os.unlink(out.name)  # noqa: PTH108 - missing_ok would hide that somebody else took it away
                raise
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    pods = "" if snapshot.pods is None else f", {counted(len(snapshot.pods), 'pod')}"
    topologies = counted(len(snapshot.topologies), "ClusterTopology", "ClusterTopologies")
    screen.show([f"saved {counted(len(snapshot.nodes), 'node')}{pods} and {topologies} in {path} ({_size(size)})"])
    return WELL


def _size(count: int) -> str:
    return f"{count / _KIB / _KIB:.1f} MiB" if count >= _KIB * _KIB else f"{max(1, count // _KIB)} KiB"
