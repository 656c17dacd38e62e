"""What all commands that look at a cluster share: where they look, how they end.

Exit codes: 0 all is well, 1 something that was looked at is not, 2 it could not be looked at (wrong usage, unreadable
input, no answer), 130 interrupted, 141 nobody reads the output any more.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toposcope.cli.failing import CommandError
from toposcope.cli.progress import Progress
from toposcope.cli.streams import NO_READER, forget
from toposcope.cli.terminal import Screen, complain, screen
from toposcope.kube.errors import ApiError, KubeError
from toposcope.snapshot.decode import paused_gc
from toposcope.snapshot.filters import SelectorError
from toposcope.snapshot.model import Collector, Snapshot
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.scope import LevelNotFoundError, TopologyNotFoundError
from toposcope.topology.text import plural

if TYPE_CHECKING:
    from toposcope.api.cluster_topology import Topology
    from toposcope.kube.client import ApiClient
    from toposcope.snapshot.decode import KeepMatrix
    from toposcope.snapshot.live import Wanted

WELL: Final = 0
UNWELL: Final = 1
FAILED: Final = 2
_INTERRUPTED: Final = 130

_WHAT_TO_DO: Final = {
    401: "; the API server does not know these credentials, or no longer: log in again, or see --kubeconfig, --context",
    403: "; ask an admin for that right: docs/cli.md, section Rights, has all that the commands read",
}

OUTPUTS: Final = ("table", "wide", "json", "yaml", "name")

EPILOG: Final = (
    "exit codes: 0 all is well; 1 something that was looked at is not; 2 it could not be looked at "
    "(wrong usage, unreadable input, no answer)"
)


def add_source_arguments(parser: argparse.ArgumentParser, outputs: tuple[str, ...] = OUTPUTS) -> None:
    """Declare where to look (`--from`, `--kubeconfig`, `--context`) and how to print (`-o`, `--no-pager`)."""
    parser.epilog = EPILOG
    where = parser.add_argument_group("where to look")
    where.add_argument(
        "--from",
        dest="files",
        action="append",
        metavar="FILE",
        help="saved objects instead of a cluster, JSON or YAML as kubectl prints it, also gzipped, or what toposcope "
        "save wrote: a file, a directory or - (standard input); may be given several times",
    )
    where.add_argument(
        "--kubeconfig", metavar="FILE", help="default: the pod's service account, $KUBECONFIG, ~/.kube/config"
    )
    where.add_argument("--context", metavar="NAME", help="a context of the kubeconfig; default: the current one")
    where.add_argument(
        "--config",
        metavar="FILE",
        help="levels of your own: the controller's configuration, or the ConfigMap with it; default: the one in the "
        "cluster, where it can be read",
    )
    if outputs:
        parser.add_argument("-o", "--output", choices=outputs, default=outputs[0], help=f"default: {outputs[0]}")
    parser.add_argument("--no-pager", action="store_true", help="do not page long output ($PAGER, on terminals only)")


def look(
    arguments: argparse.Namespace,
    *,
    pods: bool = True,
    published: bool = False,
    node: str | None = None,
    others: Collector | None = None,
    matrices: bool = False,
    first: Callable[[tuple["Topology", ...]], None] | None = None,
) -> Snapshot:
    """The snapshot that the flags ask for; its warnings go to standard error.

    `node` is the one whose matrix is wanted, `matrices` asks for all; `others` is given what else it wants out of
    files; `first` is given the ClusterTopologies of a cluster before its nodes are read. Raises BadInput, KubeError
    and Unanswerable.
    """
    from toposcope.snapshot.decode import degraded, every  # noqa: PLC0415 - what is asked for decides what is loaded

    keep: KeepMatrix = every if matrices else degraded if node is None else (lambda name, _: name == node)
    with Progress(sys.stderr) as progress:
        if arguments.files:
            snapshot = _from_files(arguments, progress, keep, others)
        else:
            from toposcope.snapshot.live import Wanted  # noqa: PLC0415 - nobody who looks at files has to wait for it

            snapshot = _from_cluster(arguments, progress, Wanted(pods, published, node, keep, first))
    from toposcope.cli.catalogue import catalogue_of  # noqa: PLC0415 - YAML is worth its time for a file only

    catalogue = catalogue_of(arguments) if arguments.config else None
    if catalogue:
        snapshot = replace(snapshot, catalogue=catalogue)
    for warning in snapshot.warnings:
        if pods or not warning.startswith("there are no Pods"):
            complain(f"warning: {warning}")
    return snapshot


def _from_files(
    arguments: argparse.Namespace, progress: Progress, keep: "KeepMatrix", others: Collector | None
) -> Snapshot:
    from toposcope.snapshot.packed import is_packed, read_packed  # noqa: PLC0415 - nobody who asks a cluster has to wait for it

    if arguments.kubeconfig or arguments.context:
        raise CommandError("--from looks at files, --kubeconfig and --context at a cluster; give one or the other")
    if len(arguments.files) == 1 and is_packed(arguments.files[0]):
        return read_packed(Path(arguments.files[0]), keep)
    from toposcope.snapshot.files import load_files  # noqa: PLC0415 - a snapshot needs no reader of YAML

    return load_files(arguments.files, progress=progress, keep_matrix=keep, others=others)


def _from_cluster(arguments: argparse.Namespace, progress: Progress, wanted: "Wanted") -> Snapshot:
    from toposcope.cli.catalogue import live_catalogue  # noqa: PLC0415 - nobody who looks at files has to wait for it
    from toposcope.snapshot.live import load_live  # noqa: PLC0415 - same

    with connected(arguments) as client:
        found = load_live(client, client.server, datetime.now(UTC), wanted, progress)
        return found if arguments.config else replace(found, catalogue=live_catalogue(client))


def glance(arguments: argparse.Namespace) -> Snapshot:
    """The ClusterTopologies of a cluster without its nodes; of files everything. Raises as `look` does."""
    from toposcope.snapshot.live import load_topologies  # noqa: PLC0415 - nobody who looks at files has to wait for it

    if arguments.files:
        return look(arguments, pods=False)
    with connected(arguments) as client:
        return load_topologies(client, client.server, datetime.now(UTC))


@contextmanager
def connected(arguments: argparse.Namespace) -> Iterator["ApiClient"]:
    """A client of the cluster that the flags name. Raises KubeError."""
    from toposcope.kube.client import ApiClient  # noqa: PLC0415 - nobody who looks at files has to wait for it
    from toposcope.kube.config import load  # noqa: PLC0415 - same

    client = ApiClient(load(arguments.kubeconfig, context=arguments.context), "toposcope", timeout=60.0)
    try:
        yield client
    finally:
        client.close()


def answer(command: str, arguments: argparse.Namespace, work: Callable[[Screen], int]) -> int:
    """Do the work of a command on the screen; the program's exit code, whatever happens."""
    try:
        # To look for garbage again and again in a large cluster takes longer than the answer.
        with paused_gc():
            code = work(screen(paging=not arguments.no_pager))
            sys.stdout.flush()
    except BrokenPipeError:
        forget(sys.stdout)
        return NO_READER
    except OSError as error:  # files that cannot be read are InputError long before
        forget(sys.stdout)
        complain(f"toposcope {command}: the output cannot be written: {error.strerror or error}")
        return FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except InputError as error:
        for problem in error.problems:
            complain(problem)
        count = len(error.problems)
        complain(f"toposcope {command}: {count} {plural(count, 'problem')} in the input")
        return FAILED
    except (KubeError, TopologyNotFoundError, LevelNotFoundError, SelectorError, CommandError) as error:
        what_to_do = _WHAT_TO_DO.get(error.status, "") if isinstance(error, ApiError) else ""
        complain(f"toposcope {command}: {error}{what_to_do}")
        return FAILED
    return code
